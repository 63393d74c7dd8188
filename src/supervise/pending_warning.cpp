#include "supervise/pending_warning.hpp"

#include <charconv>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace ddprun::supervise {

namespace {

constexpr Milliseconds k_pause{1000};
constexpr Milliseconds k_patience{15000};  // import torch takes as long from a cold disk

bool has_signal(std::string_view line, std::string_view name, int signal) {
  if (!line.starts_with(name)) return false;
  const std::string_view digits = trim(line.substr(name.size()));
  std::uint64_t mask = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return signal >= 1 && signal <= 64 && (mask >> (signal - 1) & 1U) != 0;
}

}  // namespace

bool handles_signal(std::string_view status, int signal) {
  for (const std::string& line : split(status, '\n')) {
    if (has_signal(line, "SigCgt:", signal) || has_signal(line, "SigBlk:", signal)) return true;
  }
  return false;
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

}  // namespace ddprun::supervise
