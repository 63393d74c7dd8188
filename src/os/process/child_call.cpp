#include "ddprun/os/process/child_call.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ddprun/base/text.hpp"
#include "ddprun/os/process/helper_child.hpp"

namespace ddprun {

namespace {

using Clock = std::chrono::steady_clock;

// The answer goes through the pipe behind its length, so that a child that dies half-way is noticed.
using Length = std::uint64_t;

int answer(const std::function<std::string()>& function, int pipe) {
  const std::string text = function();
  const Length length = text.size();
  std::string message(sizeof length, '\0');
  std::memcpy(message.data(), &length, sizeof length);
  return write_whole(pipe, message + text) ? 0 : 1;
}

enum class Reading { complete, ended, too_long, timed_out };

Reading read_answer(int pipe, Clock::time_point deadline, std::size_t limit, std::string& message) {
  while (true) {
    Length length = 0;
    if (message.size() >= sizeof length) {
      std::memcpy(&length, message.data(), sizeof length);
      if (length > limit) return Reading::too_long;
      if (message.size() - sizeof length >= length) return Reading::complete;
    }
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Reading::timed_out;
    pollfd ready{pipe, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::min<Milliseconds::rep>(left.count(), 1 << 30))) <= 0)
      continue;
    char buffer[65536];
    const ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Reading::ended;
    message.append(buffer, static_cast<std::size_t>(got));
  }
}

// Waits for the pipe's end, which a killed child leaves; false when there was none within a second. What the
// kernel holds inside a driver dies late or never, and waiting for it with waitpid(2) would not end either.
bool reads_end(int pipe) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(1);
  while (Clock::now() < deadline) {
    pollfd ready{pipe, POLLIN, 0};
    if (::poll(&ready, 1, 1000) <= 0) continue;
    char ignored[65536];
    if (::read(pipe, ignored, sizeof ignored) == 0) return true;
  }
  return false;
}

}  // namespace

ChildCall::ChildCall(const std::function<std::string()>& function, std::size_t limit)
    : start_(Clock::now()), limit_(limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    problem_ = to_lower(std::strerror(errno));
    return;
  }
  answer_ = Fd(ends[0]);
  const Fd writer(ends[1]);
  child_ = fork_helper([&] { return answer(function, writer.get()); });
  if (child_ < 0) problem_ = to_lower(std::strerror(errno));
}

// Ends the child whatever it does and tells how it ended, in words.
std::string ChildCall::end() {
  if (child_ < 0) return problem_;
  const pid_t child = std::exchange(child_, -1);
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  ::kill(child, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  const int options = reads_end(answer_.get()) ? 0 : WNOHANG;
  do reaped = ::waitpid(child, &status, options);
  while (reaped < 0 && errno == EINTR);
  if (reaped == 0) return "it cannot be ended";
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

ChildAnswer ChildCall::wait(Milliseconds deadline) {
  if (child_ < 0) return {std::nullopt, problem_, false};
  std::string message;
  const Reading reading = read_answer(answer_.get(), start_ + deadline, limit_, message);
  const std::string ending = end();
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

}  // namespace ddprun
