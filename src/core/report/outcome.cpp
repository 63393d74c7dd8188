#include "report/outcome.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::report {

namespace {

constexpr std::size_t k_reason_width = 400;

std::string lower_first(std::string text) {
  if (text.size() > 1 && text[1] >= 'a' && text[1] <= 'z') {
    text[0] = static_cast<char>(text[0] | 0x20);
  }
  return text;
}

std::string describe_errno(int number) {
  return number == ENOENT ? "no such file" : lower_first(std::strerror(number));
}

// Reports whether the rank was about to end by itself when it was stopped: it is named only if its own words
// say that it had failed.
bool stopped_while_ending(const Failure& failure) {
  return failure.after_stop && failure.status.kind == ExitStatus::Kind::signalled &&
         failure.out_of_memory.empty() &&
         (failure.status.value == SIGTERM || failure.status.value == SIGINT ||
          failure.status.value == SIGKILL);
}

bool failed_at_program(const ExitStatus& status) {
  return status.stage == StartStage::exec || status.stage == StartStage::interpreter;
}

std::string remedy(int number) {
  if (number == EMFILE) return " (raise the limit of open files: ulimit -n)";
  return number == EAGAIN ? " (the limit of processes, ulimit -u, may be reached)" : "";
}

std::string describe_start_failure(const ExitStatus& status) {
  if (!status.reason.empty()) return printable(status.reason, k_reason_width);
  const std::string error = describe_errno(status.value);
  if (status.stage == StartStage::interpreter)
    return "the interpreter named in its first line does not exist";
  if (status.stage == StartStage::exec) {
    return status.value == ENOEXEC
               ? "neither a program nor a script with a #! line (begin it with one, as in #!/bin/sh)"
               : error;
  }
  if (status.stage == StartStage::process) return "process creation failed: " + error + remedy(status.value);
  return fmt::format("{}: {}", stage_name(status.stage), error);
}

}  // namespace

int exit_code_of(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::exited:
      return status.value;
    case ExitStatus::Kind::signalled:
      return 128 + status.value;
    case ExitStatus::Kind::not_started:
      if (!failed_at_program(status)) return k_exit_own_failure;
      return status.value == ENOENT ? k_exit_not_found : k_exit_not_executable;
    case ExitStatus::Kind::hung:
      return k_exit_deadline;
  }
  return k_exit_own_failure;
}

int exit_code_of(const Failure& failure) {
  return stopped_while_ending(failure) ? 1 : exit_code_of(failure.status);
}

int exit_code_of(const Cause& cause) {
  switch (cause.kind) {
    case Cause::Kind::success:
      return 0;
    case Cause::Kind::worker_failed:
      return exit_code_of(cause.failure);
    case Cause::Kind::stopped_by_signal:
      return 128 + cause.signal;
    case Cause::Kind::deadline:
      return k_exit_deadline;
    case Cause::Kind::launcher_failed:
      return cause.exit_code != 0 ? cause.exit_code : k_exit_own_failure;
    case Cause::Kind::agent_lost:
      return k_exit_own_failure;
  }
  return k_exit_own_failure;
}

Failure without_words(Failure failure) {
  failure.message.clear();
  failure.message_cut = 0;
  failure.last_lines.clear();
  failure.alike.clear();
  return failure;
}

std::string describe(const ExitStatus& status) {
  if (status.kind == ExitStatus::Kind::exited) return fmt::format("exited with code {}", status.value);
  if (status.kind == ExitStatus::Kind::hung) return "hangs: " + printable(status.reason, k_reason_width);
  if (status.kind == ExitStatus::Kind::not_started)
    return "cannot be started: " + describe_start_failure(status);
  return fmt::format("was killed by {}{}", options::signal_name(status.value),
                     status.core_dumped ? " (core dumped)" : "");
}

std::string describe(const Failure& failure) {
  if (failure.status.kind == ExitStatus::Kind::not_started) {
    return fmt::format("cannot start {} on {}, rank {}: {}", failure.program, failure.host,
                       failure.rank.value, describe_start_failure(failure.status));
  }
  if (stopped_while_ending(failure)) {
    return fmt::format("rank {} on {} failed, and was stopped by {} before it exited", failure.rank.value,
                       failure.host, options::signal_name(failure.status.value));
  }
  const std::string memory = failure.out_of_memory.empty() ? "" : ", out of memory";
  const std::string because =
      failure.because.empty() ? "" : ": " + printable(failure.because, k_reason_width);
  return fmt::format("rank {} on {} {}{}{}", failure.rank.value, failure.host, describe(failure.status),
                     memory, because);
}

std::string describe(const Cause& cause) {
  switch (cause.kind) {
    case Cause::Kind::success:
      return "all workers succeeded";
    case Cause::Kind::worker_failed:
      return describe(cause.failure);
    case Cause::Kind::stopped_by_signal:
      return fmt::format("stopped by {} on {}{}{}", options::signal_name(cause.signal), cause.host,
                         cause.detail.empty() ? "" : ": ", cause.detail);
    case Cause::Kind::agent_lost:
    case Cause::Kind::deadline:
    case Cause::Kind::launcher_failed:
      return cause.detail;
  }
  return cause.detail;
}

}  // namespace ddprun::report
