#include "os/process/ask_program.hpp"

#include <signal.h>
#include <unistd.h>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/become.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::os {

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
