#include "forked_ddprun.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <utility>

#include "catch.hpp"
#include "ddprun/run.hpp"
#include "os/descriptors.hpp"

namespace ddprun::testing {

namespace {

constexpr std::chrono::seconds k_limit{30};

[[noreturn]] void run(std::vector<std::string> words, const std::string& folder,
                      const std::map<std::string, std::string>& variables, int output, int error) {
  const os::Fd input(::open("/dev/null", O_RDONLY));
  ::dup2(input.get(), STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  const char* const path = ::getenv("PATH");
  const std::string kept = path != nullptr ? path : "/usr/bin:/bin";
  ::clearenv();
  ::setenv("PATH", kept.c_str(), 1);
  ::setenv("HOME", folder.c_str(), 1);
  ::setenv("TMPDIR", folder.c_str(), 1);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  words.insert(words.begin(), "ddprun");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::_exit(app::run_program(static_cast<int>(words.size()), arguments.data()));
}

// What has come; false at the end.
bool read_some(const os::Fd& descriptor, std::string& text) {
  char buffer[4096];
  const ssize_t count = ::read(descriptor.get(), buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

ForkedDdprun::ForkedDdprun(std::vector<std::string> arguments, const std::string& folder,
                           const std::map<std::string, std::string>& variables) {
  os::Pipe output = os::make_pipe();
  os::Pipe error = os::make_pipe();
  std::cout.flush();  // what the test has written is not to be written by the child too
  std::fflush(nullptr);
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) run(std::move(arguments), folder, variables, output.writer.get(), error.writer.get());
  output_ = std::move(output.reader);
  error_ = std::move(error.reader);
}

ForkedDdprun::~ForkedDdprun() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

ForkedDdprun::End ForkedDdprun::wait() {
  End end;
  const auto deadline = std::chrono::steady_clock::now() + k_limit;
  bool more_output = true;
  bool more_error = true;
  while (more_output || more_error) {
    pollfd watched[] = {{more_output ? output_.get() : -1, POLLIN, 0},
                        {more_error ? error_.get() : -1, POLLIN, 0}};
    ::poll(watched, 2, 100);
    if (watched[0].revents != 0) more_output = read_some(output_, end.output);
    if (watched[1].revents != 0) more_error = read_some(error_, end.error);
    INFO(end.output << end.error);
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace ddprun::testing
