#include "ddprun/os/capture/capture_remote_launchers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "ddprun/base/duration.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/find_program.hpp"
#include "ddprun/os/process/become.hpp"
#include "ddprun/os/process/spawn.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_answer_limit{3000};
constexpr std::size_t k_text_limit = 16384;

// Reads until the end, the limit or the deadline.
std::string read_for_a_while(int descriptor) {
  const auto deadline = std::chrono::steady_clock::now() + k_answer_limit;
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

// What a program prints, errors included, without waiting for one that does not end.
std::string ask(const std::vector<std::string>& words) {
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
  std::string text = read_for_a_while(pipe.reader.get());
  child->send_signal_to_family(SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + k_answer_limit;
  while (!child->reap() && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  return text;
}

// Open MPI tells its launch modules, of which "tm" is PBS', through a program beside mpiexec.
std::string ask_open_mpi(const std::string& mpiexec) {
  const std::string folder = mpiexec.substr(0, mpiexec.rfind('/') + 1);
  std::string modules;
  for (const std::string& line : split(ask({folder + "ompi_info"}), '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with("MCA plm:")) modules.append(text).push_back('\n');
  }
  return modules;
}

}  // namespace

void capture_remote_launchers(facts::Snapshot& snapshot, const std::vector<std::string>& names) {
  snapshot.programs["ddprun"] = {facts::ProgramKind::executable, capture_own_file(), {}};
  const auto path = facts::find_variable(snapshot, "PATH");
  for (const std::string& name : names) {
    facts::ProgramFacts facts = capture_program(name, path);
    if (name == "mpiexec" && facts.kind == facts::ProgramKind::executable) {
      facts.version = ask({facts.path, "--version"});
      if (facts.version.find("OpenRTE") != std::string::npos) facts.version += ask_open_mpi(facts.path);
    }
    snapshot.programs[name] = std::move(facts);
  }
}

}  // namespace ddprun::os
