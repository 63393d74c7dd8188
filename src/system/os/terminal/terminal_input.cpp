#include "os/terminal/terminal_input.hpp"

#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/descriptors.hpp"
#include "os/process/blocked_signals.hpp"

namespace ddprun::os {

TerminalInput::TerminalInput(int descriptor)
    : descriptor_(descriptor), watch_(watch_readiness(descriptor, Readiness::readable)) {}

namespace {

bool collects_lines(int terminal) {
  termios modes;
  return ::tcgetattr(terminal, &modes) != 0 || (modes.c_lflag & ICANON) != 0;
}

}  // namespace

TerminalInput::Result TerminalInput::read() const {
  const int foreground = ::tcgetpgrp(descriptor_);
  if (foreground < 0) return {State::ended, {}};  // hung up
  if (foreground != ::getpgrp() || !collects_lines(descriptor_)) return {State::for_others, {}};
  pollfd ready{descriptor_, POLLIN, 0};
  if (::poll(&ready, 1, 0) == 0) return {State::nothing_yet, {}};

  // Should we lose the foreground in between, a blocked SIGTTIN turns the stop into EIO.
  const BlockedSignals blocked(SIGTTIN);
  if (blocked.error() != 0) return {State::nothing_yet, {}};
  std::array<char, 4096> text;
  const ssize_t length = ::read(descriptor_, text.data(), text.size());
  const int error = errno;
  const bool still_ours = ::tcgetpgrp(descriptor_) == ::getpgrp();
  if (length > 0) return {State::typed, std::string(text.data(), static_cast<std::size_t>(length))};
  if (length < 0 && (error == EAGAIN || error == EINTR)) return {State::nothing_yet, {}};
  if (length < 0 && !still_ours) return {State::for_others, {}};
  return {State::ended, {}};
}

}  // namespace ddprun::os
