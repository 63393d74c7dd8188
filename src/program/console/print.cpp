#include "console/print.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/system_failure.hpp"

namespace ddprun::console {

namespace {

bool was_closed = false;

}  // namespace

void note_standard_output() { was_closed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0; }

void print_text(const std::string& text) { print_data(printable_lines(text)); }

void print_data(const std::string& text) {
  if (was_closed) throw Error("cannot write to standard output: it is closed", "");
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw os::system_failure("cannot write to standard output", errno);
}

}  // namespace ddprun::console
