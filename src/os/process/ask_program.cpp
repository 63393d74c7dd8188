#include "os/process/ask_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>

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
    const auto left =
        std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd waiting{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) break;
    const ssize_t length = ::read(descriptor, chunk.data(), chunk.size());
    if (length <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(length));
  }
  return text;
}

}  // namespace

std::string ask_program(const std::vector<std::string>& words, Milliseconds limit) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
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
  while (!child->reap() && std::chrono::steady_clock::now() < deadline + limit) ::usleep(1000);
  return text;
}

}  // namespace ddprun::os
