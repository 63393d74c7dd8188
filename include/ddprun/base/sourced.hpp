// A value together with what it came from, so that a plan can explain itself.
#pragma once

#include <string>
#include <utility>

namespace ddprun {

template <class T>
struct Sourced {
  T value{};
  std::string origin;  // e.g. "SLURM_STEP_NODELIST", "--nnodes", "default: visible GPUs"; empty: not known

  friend bool operator==(const Sourced&, const Sourced&) = default;
};

template <class T>
Sourced<T> sourced(T value, std::string origin) {
  return {std::move(value), std::move(origin)};
}

}  // namespace ddprun
