#include "lifecycle/pending_warning.hpp"

#include <numeric>
#include <utility>

#include "facts/proc_text.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr Milliseconds k_pause{1000};
constexpr Milliseconds k_patience{15000};  // import torch takes as long from a cold disk

}  // namespace

bool handles_signal(std::string_view status, int signal) {
  return facts::has_signal(status, "SigCgt:", signal) || facts::has_signal(status, "SigBlk:", signal);
}

void PendingWarning::begin(std::size_t workers, TimePoint now) {
  pending_.resize(workers);
  std::iota(pending_.begin(), pending_.end(), std::size_t{0});
  next_ = now;
  tell_at_ = now + k_patience;
}

PendingWarning::Step PendingWarning::look(const std::function<Worker(std::size_t)>& state, TimePoint now) {
  Step step;
  std::vector<std::size_t> deaf;
  for (const std::size_t worker : pending_) {
    const Worker found = state(worker);
    if (found == Worker::ready) step.send.push_back(worker);
    if (found == Worker::deaf) deaf.push_back(worker);
  }
  pending_ = std::move(deaf);
  next_ = now + k_pause;
  if (tell_at_ && now >= *tell_at_) {
    step.tell = pending_;
    tell_at_.reset();
  }
  return step;
}

}  // namespace ddprun::lifecycle
