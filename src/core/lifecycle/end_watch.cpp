#include "lifecycle/end_watch.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "facts/proc_text.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr Milliseconds k_ahead{3000};      // an answer takes two seconds at most
constexpr Milliseconds k_tolerance{5000};  // answers are in whole seconds and take a while

}  // namespace

std::string describe_left(Milliseconds left) {
  const auto seconds = (std::max(left, Milliseconds{0}).count() + 500) / 1000;
  if (seconds < 120) return fmt::format("{} s", seconds);
  const auto minutes = (seconds + 30) / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

EndWatch::EndWatch(const options::TimeLimitOptions& options)
    : min_attempt_(options.min_attempt.value), resumes_(options.resumes) {
  if (options.signal) lead_ = options.signal->value.before;
}

EndWatch::Actions EndWatch::on_start(std::optional<Milliseconds> left, TimePoint now) {
  Actions actions;
  if (begun_ || !(is_for_workers() || resumes_)) return actions;
  begun_ = true;
  if (!left) {
    ask(now, actions);
    return actions;
  }
  learn(left, now, actions);
  Actions further = on_time(now);
  actions.insert(actions.end(), further.begin(), further.end());
  return actions;
}

EndWatch::Actions EndWatch::on_answer(std::optional<Milliseconds> left, TimePoint now) {
  Actions actions;
  asking_ = false;
  learn(left, now, actions);
  if (!end_ && is_for_workers() && !std::exchange(said_unknown_, true)) actions.push_back(SayUnknown{});
  Actions further = on_time(now);
  actions.insert(actions.end(), further.begin(), further.end());
  return actions;
}

EndWatch::Actions EndWatch::on_time(TimePoint now) {
  Actions actions;
  if (!end_ || asking_) return actions;
  if (lead_ && !warned_ && now >= *end_ - *lead_ - k_ahead) {
    if (!is_fresh(*end_ - *lead_ - k_ahead)) {
      ask(now, actions);
    } else if (now >= *end_ - *lead_) {
      warned_ = true;
      actions.push_back(Warn{std::chrono::floor<Milliseconds>(*end_ - now)});
    }
  }
  const bool matters = min_attempt_ > Milliseconds{0} && now >= *end_ - min_attempt_;
  if (matters && !asking_ && !is_fresh(*end_ - min_attempt_)) ask(now, actions);
  return actions;
}

std::optional<TimePoint> EndWatch::deadline() const {
  std::optional<TimePoint> next;
  if (!end_ || asking_) return next;
  if (lead_ && !warned_) {
    const TimePoint asked = *end_ - *lead_ - k_ahead;
    next = is_fresh(asked) ? *end_ - *lead_ : asked;
  }
  const bool pending = min_attempt_ > Milliseconds{0} && !is_fresh(*end_ - min_attempt_);
  if (pending) next = std::min(next.value_or(TimePoint::max()), *end_ - min_attempt_);
  return next;
}

void EndWatch::learn(std::optional<Milliseconds> left, TimePoint now, Actions& actions) {
  if (!left) return;
  const TimePoint end = now + *left;
  if (end_ && end - *end_ <= k_tolerance && *end_ - end <= k_tolerance) return;
  end_ = end;
  actions.push_back(Know{end});
}

void EndWatch::ask(TimePoint now, Actions& actions) {
  asking_ = true;
  asked_at_ = now;
  actions.push_back(Ask{});
}

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
