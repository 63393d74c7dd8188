#include "os/process/child_call.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/become.hpp"
#include "os/process/process_table.hpp"
#include "os/process/spawn.hpp"

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

namespace {

constexpr Milliseconds k_look{10};

// Standard input with this text.
Fd hold_text(const std::string& text) {
  Fd file(text.empty() ? -1 : ::memfd_create("input", MFD_CLOEXEC));
  const bool held = file && write_whole(file.get(), text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return held ? std::move(file) : open_null();
}

// Reads what is there, and keeps `most` bytes of all.
void drain(int pipe, std::string& kept, std::size_t most) {
  std::array<char, 65536> bytes;
  for (;;) {
    const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
    if (got <= 0) return;
    kept.append(bytes.data(), std::min(static_cast<std::size_t>(got), most - std::min(most, kept.size())));
  }
}

}  // namespace

ProgramEnd run_program(const ProgramRun& run, Milliseconds limit, std::size_t most) {
  const TimePoint deadline = now() + limit;
  const Fd input = hold_text(run.input);
  Pipe pipe = make_pipe();
  ::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
  SpawnRequest request;
  request.arguments = run.words;
  request.environment = run.environment;
  request.standard_input = input.get();
  request.standard_output = request.standard_error = pipe.writer.get();
  auto result = spawn(request);
  pipe.writer.close();
  if (const auto* const failure = std::get_if<SpawnFailure>(&result)) return {not_started(*failure), {}};
  auto& child = std::get<Child>(result);
  ProgramEnd end;
  while (!(end.status = child.ending()) && now() < deadline) {
    wait_until_ready(pipe.reader.get(), std::min(deadline, now() + k_look));
    drain(pipe.reader.get(), end.output, most);
    if (!child.ending()) ::usleep(1000);  // it may have closed its output
  }
  drain(pipe.reader.get(), end.output, most);
  child.send_signal_to_family(SIGKILL);
  while (!child.reap() && now() < deadline + limit) ::usleep(1000);
  return end;
}

std::string ask_program(const std::vector<std::string>& words, Milliseconds limit, std::size_t most) {
  const TimePoint deadline = now() + limit;
  const Fd null = open_null();
  Pipe pipe = make_pipe();
  SpawnRequest request;
  request.arguments = words;
  request.environment = capture_environment_strings();
  request.standard_input = null.get();
  request.standard_output = pipe.writer.get();
  request.standard_error = pipe.writer.get();
  auto result = spawn(request);
  pipe.writer.close();
  auto* const child = std::get_if<Child>(&result);
  if (child == nullptr) return {};
  std::string text = read_by(deadline, pipe.reader.get(), most);
  child->send_signal_to_family(SIGKILL);
  while (!child->reap() && now() < deadline + limit) ::usleep(1000);
  return text;
}

}  // namespace ddprun::os
