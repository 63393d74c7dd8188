#include "os/process/ask_program.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/become.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_text_limit = 16384;

// Reads until the end, the limit or the deadline.
std::string read_until(TimePoint deadline, int descriptor) {
  std::string text;
  std::array<char, 4096> chunk;
  while (text.size() < k_text_limit) {
    if (!wait_until_ready(descriptor, deadline)) break;
    const ssize_t length = ::read(descriptor, chunk.data(), chunk.size());
    if (length <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(length));
  }
  return text;
}

}  // namespace

std::string ask_program(const std::vector<std::string>& words, Milliseconds limit) {
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
  std::string text = read_until(deadline, pipe.reader.get());
  child->send_signal_to_family(SIGKILL);
  while (!child->reap() && now() < deadline + limit) ::usleep(1000);
  return text;
}

}  // namespace ddprun::os
