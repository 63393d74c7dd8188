#include "os/process/ask_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/become.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::os {

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
