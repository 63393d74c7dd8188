#include "os/terminal/output_sink.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/descriptors.hpp"
#include "os/terminal/terminal.hpp"

namespace ddprun::os {

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
