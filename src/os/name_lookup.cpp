#include "ddprun/os/name_lookup.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "ddprun/base/error.hpp"

namespace ddprun {

namespace {

std::string look_up(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (result == EAI_NONAME || result == EAI_NODATA) return "error: the name is not known here\n";
  if (result == EAI_AGAIN) return "error: the name service does not answer\n";
  if (result != 0) return fmt::format("error: {}\n", ::gai_strerror(result));
  std::string lines;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int shown = ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                                    NI_NUMERICHOST);
    if (shown == 0) lines += std::string(text.data()) + "\n";
  }
  ::freeaddrinfo(found);
  return lines;
}

// A fork of a process with one thread may go on using the C library.
[[noreturn]] void serve_answer(const std::string& name, pid_t parent, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  std::signal(SIGPIPE, SIG_DFL);
  const std::string lines = look_up(name);
  std::size_t written = 0;
  while (written < lines.size()) {
    const ssize_t count = ::write(descriptor, lines.data() + written, lines.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  ::_exit(0);
}

}  // namespace

NameLookupChild::NameLookupChild(const std::string& name) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot look up the host name {}: {}", name, std::strerror(errno)));
  }
  answer_ = Fd(ends[0]);
  const Fd writer(ends[1]);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) serve_answer(name, parent, writer.get());
  if (child_ < 0) {
    throw Error(fmt::format("cannot look up the host name {}: {}", name, std::strerror(errno)));
  }
}

NameLookupChild::~NameLookupChild() {
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddprun
