#include "os/process/child_call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

namespace {

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
    if (now() >= deadline || !wait_until_ready(pipe, deadline)) return Reading::timed_out;
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

ChildAnswer ChildCall::wait(Milliseconds deadline) {
  if (!child_) return {std::nullopt, problem_, false};
  std::string message;
  const Reading reading = read_answer(child_->descriptor(), start_ + deadline, limit_, message);
  const std::string ending = describe_end(child_->end());
  switch (reading) {
    case Reading::complete:
      return {message.substr(sizeof(Length)), "", false};
    case Reading::too_long:
      return {std::nullopt, fmt::format("the answer is longer than {} bytes", limit_), false};
    case Reading::timed_out:
      return {std::nullopt, fmt::format("no answer within {}", describe_duration(deadline)), true};
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
