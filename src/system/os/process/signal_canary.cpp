#include "os/process/signal_canary.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "os/descriptors.hpp"
#include "os/process/blocked_signals.hpp"
#include "os/process/child.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

void enter_place(ChildGroup place) {
  if (place == ChildGroup::own_session) ::setsid();
  if (place == ChildGroup::own_group) ::setpgid(0, 0);
}

void pass_on_signals(int signals, int socket) {
  pollfd watched[] = {{signals, POLLIN, 0}, {socket, POLLIN, 0}};
  while (::poll(watched, 2, -1) > 0 || errno == EINTR) {
    if ((watched[1].revents & (POLLHUP | POLLERR | POLLIN)) != 0) return;  // ddprun is gone or has had enough
    signalfd_siginfo info;
    if (::read(signals, &info, sizeof info) != sizeof info) continue;
    const auto number = static_cast<unsigned char>(info.ssi_signo);
    if (::send(socket, &number, 1, MSG_NOSIGNAL) != 1 && errno != EAGAIN) return;
  }
}

[[noreturn]] void listen_for_signals(ChildGroup place, int socket) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "ddprun-canary", 0, 0, 0);
  enter_place(place);
  socket = close_all_but(socket);
  const int source = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (::chdir("/") == 0 && source >= 0) pass_on_signals(source, socket);
  ::_exit(0);
}

}  // namespace

SignalCanary::SignalCanary(ChildGroup place) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    throw system_failure("cannot create a socket", errno);
  told_ = Fd(ends[0]);
  const Fd other(ends[1]);
  const BlockedSignals blocked;  // one that comes now would end it
  if (blocked.error() != 0) throw system_failure("cannot block signals", blocked.error());
  pid_ = ::fork();
  if (pid_ == 0) listen_for_signals(place, other.get());
  if (pid_ < 0) throw system_failure("cannot start the process that watches signals", errno);
  note_helper(pid_);
}

std::optional<int> SignalCanary::read() {
  unsigned char number = 0;
  if (::read(told_.get(), &number, 1) != 1) return std::nullopt;
  return number;
}

bool SignalCanary::is_behind() const {
  if (!sees_own_processes()) return false;
  const auto status = try_read_file(fmt::format("/proc/{}/status", pid_));
  if (!status) return false;
  for (const char* const field : {"\nSigPnd:\t", "\nShdPnd:\t"}) {
    const std::size_t at = status->find(field);
    if (at == std::string::npos) continue;
    const std::size_t start = at + std::string_view(field).size();
    const std::string_view mask = std::string_view(*status).substr(start, status->find('\n', start) - start);
    if (mask.find_first_not_of('0') != std::string_view::npos) return true;
  }
  return false;
}

void SignalCanary::dismiss() {
  told_.close();
  ending_ = EndingChild(pid_);
}

}  // namespace ddprun::os
