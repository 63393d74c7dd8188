// A value together with what it came from, so that a plan can explain itself.
#pragma once

#include <string>
#include <utility>

namespace ddprun {

// Source of a value, as far as anything depends on it; the text for the user is the origin.
enum class Source {
  given,            // set by an option, a variable, the scheduler, or derived from them
  by_default,       // ddprun's own choice
  endpoint,         // --rdzv-endpoint or its variable, which has another default port
  master_variable,  // an exported MASTER_ADDR or MASTER_PORT
};

template <class T>
struct Sourced {
  T value{};
  std::string origin;  // e.g. "SLURM_STEP_NODELIST", "--nnodes", "default: visible GPUs"; empty: not known
  Source source = Source::given;

  bool known() const { return !origin.empty(); }
  bool by_default() const { return source == Source::by_default; }
  friend bool operator==(const Sourced&, const Sourced&) = default;
};

template <class T>
Sourced<T> sourced(T value, std::string origin, Source source = Source::given) {
  return {std::move(value), std::move(origin), source};
}

template <class T>
Sourced<T> by_default(T value) {
  return {std::move(value), "default", Source::by_default};
}

}  // namespace ddprun
