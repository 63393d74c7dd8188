#include "ddprun/os/child_call.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ddprun/base/text.hpp"
#include "ddprun/os/fd.hpp"

namespace ddprun {

namespace {

using Clock = std::chrono::steady_clock;

// The answer goes through the pipe behind its length, so that a child that dies half-way is noticed.
using Length = std::uint64_t;

[[noreturn]] void answer_and_leave(const std::function<std::string()>& function, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    const std::string answer = function();
    const Length length = answer.size();
    std::string message(sizeof length, '\0');
    std::memcpy(message.data(), &length, sizeof length);
    message += answer;
    for (std::string_view rest = message; !rest.empty();) {
      const ssize_t written = ::write(pipe, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) ::_exit(1);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

// The child keeps every signal blocked: our handlers must not run in it, where they would report a Ctrl-C to
// us for a second time.
pid_t fork_answerer(const std::function<std::string()>& function, int pipe) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) answer_and_leave(function, pipe, parent);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return child;
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

// Ends the child whatever it does and tells how it ended, in words.
std::string end_child(pid_t child) {
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace

ChildAnswer call_in_child(const std::function<std::string()>& function, Milliseconds deadline,
                          std::size_t limit) {
  const Clock::time_point end = Clock::now() + deadline;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {std::nullopt, to_lower(std::strerror(errno)), false};
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t child = fork_answerer(function, writer.get());
  if (child < 0) return {std::nullopt, to_lower(std::strerror(errno)), false};
  writer.close();
  std::string message;
  const Reading reading = read_answer(reader.get(), end, limit, message);
  const std::string ending = end_child(child);
  switch (reading) {
    case Reading::complete:
      return {message.substr(sizeof(Length)), "", false};
    case Reading::too_long:
      return {std::nullopt, fmt::format("the answer is longer than {} bytes", limit), false};
    case Reading::timed_out:
      return {std::nullopt, fmt::format("no answer within {}", describe_duration(deadline)), true};
    case Reading::ended:
      break;
  }
  return {std::nullopt, ending, false};
}

}  // namespace ddprun
