#include "processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "catch.hpp"
#include "test_paths.hpp"

namespace ddprun::testing {

namespace {

constexpr int k_deadline = 10'000;  // ms

os::SpawnRequest request_for(const char* program, std::vector<std::string> arguments) {
  os::SpawnRequest request;
  request.arguments = std::move(arguments);
  request.arguments.insert(request.arguments.begin(), program);
  static const os::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  request.standard_output = null.get();
  return request;
}

void wait_until_readable(int descriptor) {
  pollfd ready{descriptor, POLLIN, 0};
  REQUIRE(::poll(&ready, 1, k_deadline) == 1);
}

}  // namespace

Adopting::Adopting() { REQUIRE(os::adopt_orphans()); }
Adopting::~Adopting() { ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); }

os::SpawnRequest worker_request(std::vector<std::string> arguments) {
  return request_for(DDPRUN_TEST_WORKER, std::move(arguments));
}

os::SpawnRequest launcher_request(std::vector<std::string> arguments) {
  return request_for(DDPRUN_MINI_LAUNCHER, std::move(arguments));
}

os::Child start(const os::SpawnRequest& request) {
  auto started = os::spawn(request);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&started))
    FAIL(stage_name(failure->stage) << ": errno " << failure->error);
  return std::move(std::get<os::Child>(started));
}

ExitStatus wait_for_end(os::Child& child) {
  wait_until_readable(child.pidfd().get());
  const auto status = child.reap();
  REQUIRE(status.has_value());
  return *status;
}

void wait_until_gone(const os::Fd& pidfd) {
  REQUIRE(pidfd);
  wait_until_readable(pidfd.get());
}

std::string read_until(int descriptor, const std::string& text) {
  std::string all;
  std::array<char, 65536> chunk;
  while (text.empty() || all.find(text) == std::string::npos) {
    INFO("so far: " << all);
    wait_until_readable(descriptor);
    const ssize_t length = ::read(descriptor, chunk.data(), chunk.size());
    // A pty's master reports EIO when the other side is closed.
    if (length == 0 || (length < 0 && errno == EIO)) {
      REQUIRE(text.empty());
      break;
    }
    REQUIRE(length > 0);
    all.append(chunk.data(), static_cast<std::size_t>(length));
  }
  return all;
}

std::string output_of(os::SpawnRequest request) {
  os::Pipe pipe = os::make_pipe();
  request.standard_output = pipe.writer.get();
  os::Child child = start(request);
  pipe.writer.close();
  const std::string text = read_until(pipe.reader.get(), "");
  wait_for_end(child);
  return text;
}

int number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  REQUIRE(at != std::string::npos);
  return std::stoi(text.substr(at + label.size()));
}

}  // namespace ddprun::testing
