#include "os/process/child_call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "os/process/process_usage.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_look_again{100};  // between looks at a call that gets no CPU

// The answer goes through the pipe behind its length, so that a child that dies half-way is noticed.
using Length = std::uint64_t;

std::string with_length(const std::string& text) {
  const Length length = text.size();
  std::string message(sizeof length, '\0');
  std::memcpy(message.data(), &length, sizeof length);
  return message + text;
}

std::string describe_end(const std::optional<ExitStatus>& status) {
  if (!status) return "it cannot be ended";
  const bool signalled = status->kind == ExitStatus::Kind::signalled;
  return fmt::format("ended {} {}", signalled ? "by signal" : "with code", status->value);
}

enum class Reading { complete, ended, too_long, timed_out };

Reading read_answer(int pipe, TimePoint deadline, std::size_t limit, std::string& message) {
  while (true) {
    Length length = 0;
    if (message.size() >= sizeof length) {
      std::memcpy(&length, message.data(), sizeof length);
      if (length > limit) return Reading::too_long;
      if (message.size() - sizeof length >= length) return Reading::complete;
    }
    if (!wait_until_ready(pipe, deadline)) return Reading::timed_out;  // not if it came before we did
    char buffer[65536];
    const ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Reading::ended;
    message.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

ChildCall::ChildCall(const std::function<std::string()>& function, std::size_t limit)
    : start_(now()), limit_(limit) {
  try {
    child_.emplace([&] { return with_length(function()); }, "start a child process");
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

bool ChildCall::hangs(Milliseconds limit) const {
  const auto process = capture_process(child_->pid());
  if (!process) return true;
  return process->state != 'R' && now() - start_ - read_cpu_wait(child_->pid()) >= limit;
}

ChildAnswer ChildCall::wait(Milliseconds limit, Milliseconds starved) {
  if (!child_) return {std::nullopt, problem_, false};
  std::string message;
  const TimePoint last = start_ + limit + starved;
  Reading reading = read_answer(child_->descriptor(), start_ + limit, limit_, message);
  while (reading == Reading::timed_out && now() < last && !hangs(limit))
    reading = read_answer(child_->descriptor(), std::min(last, now() + k_look_again), limit_, message);
  const std::string ending = describe_end(child_->end());
  switch (reading) {
    case Reading::complete:
      return {message.substr(sizeof(Length)), "", false};
    case Reading::too_long:
      return {std::nullopt, fmt::format("the answer is longer than {} bytes", limit_), false};
    case Reading::timed_out:
      return {std::nullopt, fmt::format("no answer within {}", describe_duration(limit)), true};
    case Reading::ended:
      break;
  }
  return {std::nullopt, ending, false};
}

ChildAnswer call_in_child(const std::function<std::string()>& function, Milliseconds deadline,
                          std::size_t limit) {
  return ChildCall(function, limit).wait(deadline);
}

}  // namespace ddprun::os
