#include "os/terminal/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "os/process/signals.hpp"

namespace ddprun::os {

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

int terminal_columns() {
  for (const int descriptor : {STDERR_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  }
  return 0;
}

std::optional<Terminal> Terminal::open_controlling() {
  Fd descriptor(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!descriptor) return std::nullopt;
  return Terminal(std::move(descriptor));
}

Terminal::Terminal(Fd descriptor)
    : descriptor_(std::move(descriptor)), has_modes_(::tcgetattr(descriptor_.get(), &modes_) == 0) {}

bool Terminal::in_foreground() const { return ::tcgetpgrp(descriptor_.get()) == ::getpgrp(); }

bool Terminal::give_to(int group) { return in_foreground() && ::tcsetpgrp(descriptor_.get(), group) == 0; }

void Terminal::take_back(int borrower) {
  const int foreground = ::tcgetpgrp(descriptor_.get());
  // A borrower may have passed it on to a group of its own (an interactive shell) that has ended since.
  const bool deserted = foreground > 0 && ::kill(-foreground, 0) != 0 && errno == ESRCH;
  if (foreground != borrower && !deserted) return;
  // In a background group tcsetpgrp and tcsetattr stop the caller, unless SIGTTOU is blocked (tcsetpgrp(3)).
  const BlockedSignals blocked(SIGTTOU);
  if (blocked.error() != 0) return;
  ::tcsetpgrp(descriptor_.get(), ::getpgrp());
  if (has_modes_) ::tcsetattr(descriptor_.get(), TCSANOW, &modes_);
}

bool can_be_continued() {
  const auto self = capture_process(::getpid());
  if (!self) return false;
  // Only we and the processes above us are looked at: the one that started the group is there or gone.
  for (auto above = capture_process(self->parent); above; above = capture_process(above->parent)) {
    if (above->group != self->group) return above->session == self->session;
  }
  return false;
}

void stop_own_group() {
  // SIGTSTP, not SIGSTOP: the kernel drops it for an orphaned group, which could never be continued.
  const BlockedSignals blocked(SIGTSTP);
  if (blocked.error() != 0) return;
  ::kill(0, SIGTSTP);
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // we stand still in here
}

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

namespace {

// A terminal is "writable" with less room than a pipe; the kernel's threshold is 256 (tty WAKEUP_CHARS).
constexpr std::size_t k_terminal_portion = 256;
constexpr int k_pipe_size = 256 * 1024;

// Enlarges the pipe for the output of many workers, which comes in turns of more than the usual 64 KiB; a
// reader that is woken less often costs both sides less. Unchanged if that is refused.
void widen_pipe(int descriptor) {
  const int size = ::fcntl(descriptor, F_GETPIPE_SZ);
  if (size > 0 && size < k_pipe_size) ::fcntl(descriptor, F_SETPIPE_SZ, k_pipe_size);
}

}  // namespace

OutputSink::OutputSink(int descriptor)
    : descriptor_(descriptor),
      watch_(watch_readiness(descriptor, Readiness::writable)),
      terminal_(is_terminal(descriptor)) {
  struct stat status {};
  if (!watch_ || ::fstat(descriptor, &status) != 0) return;
  if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::socket;
    return;
  }
  if (S_ISFIFO(status.st_mode) || terminal_) {
    const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
    own_ = Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
  if (own_) {
    kind_ = Kind::nonblocking;
    descriptor_ = own_.get();
    if (S_ISFIFO(status.st_mode)) widen_pipe(descriptor_);
  } else {
    kind_ = Kind::careful;
    portion_ = S_ISFIFO(status.st_mode) ? PIPE_BUF : k_terminal_portion;
  }
}

long OutputSink::write_some(std::string_view text) const {
  if (kind_ == Kind::socket) {
    return ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (kind_ == Kind::careful) {
    pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    text = text.substr(0, portion_);
  }
  return ::write(descriptor_, text.data(), text.size());
}

bool OutputSink::reader_has_gone() const {
  return errno == EPIPE || errno == ECONNRESET || (errno == EIO && terminal_);
}

std::size_t OutputSink::write(std::string_view text) {
  std::size_t taken = 0;
  while (taken < text.size()) {
    const long written = write_some(text.substr(taken));
    if (written >= 0) {
      taken += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return taken;
    } else if (errno != EINTR) {
      error_ = errno;
      if (!reader_has_gone()) lost_ = error_;
      return text.size();
    }
  }
  return taken;
}

}  // namespace ddprun::os
