#include "pseudo_terminal.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "catch.hpp"
#include "processes.hpp"
#include "test_paths.hpp"

namespace ddprun::testing {

namespace {

os::Fd open_master() {
  os::Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master);
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  return master;
}

os::Child start_shell(int master, const std::string& shell, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {shell, DDPRUN_MINI_LAUNCHER});
  const os::Fd slave(::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(slave);
  os::SpawnRequest request = launcher_request(std::move(arguments));
  request.group = os::ChildGroup::own_session;
  request.standard_input = request.standard_output = request.standard_error = slave.get();
  return start(request);
}

}  // namespace

PseudoTerminal::PseudoTerminal(std::vector<std::string> arguments, const std::string& shell)
    : master_(open_master()), shell_(start_shell(master_.get(), shell, std::move(arguments))) {}

void PseudoTerminal::type(const std::string& keys) {
  REQUIRE(::write(master_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

void PseudoTerminal::expect(const std::string& text) {
  if (shown_.find(text) == std::string::npos) {
    // What was shown may hold the beginning of it.
    while (shown_.find(text) == std::string::npos) shown_ += read_until(master_.get(), "\n");
  }
  shown_.erase(0, shown_.find(text) + text.size());
}

ExitStatus PseudoTerminal::wait_for_end() { return testing::wait_for_end(shell_); }

}  // namespace ddprun::testing
