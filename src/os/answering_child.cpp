#include "ddprun/os/answering_child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "ddprun/os/child.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/system_failure.hpp"

namespace ddprun {

namespace {

constexpr auto k_by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older headers lack

// A fork of a process with one thread may go on using the C library.
[[noreturn]] void answer(const std::function<std::string()>& call, pid_t parent, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  try {
    const std::string text = call();
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t count = ::write(descriptor, rest.data(), rest.size());
      if (count <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

AnsweringChild::AnsweringChild(const std::function<std::string()>& call, const std::string& purpose) {
  Pipe pipe = make_pipe();
  answer_ = std::move(pipe.reader);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  const int error = errno;
  if (child_ == 0) answer(call, parent, pipe.writer.get());
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child_ < 0) throw system_failure("cannot " + purpose, error);
  process_ = open_pidfd(child_);
}

AnsweringChild::AnsweringChild(AnsweringChild&& other) noexcept
    : answer_(std::move(other.answer_)),
      process_(std::move(other.process_)),
      child_(std::exchange(other.child_, -1)) {}

AnsweringChild& AnsweringChild::operator=(AnsweringChild&& other) noexcept {
  end();
  answer_ = std::move(other.answer_);
  process_ = std::move(other.process_);
  child_ = std::exchange(other.child_, -1);
  return *this;
}

// Once it has ended it is reaped as any orphan is (reap_orphans), and its number may be another process', a
// worker's even. What its descriptor names cannot change.
void AnsweringChild::end() {
  const pid_t child = std::exchange(child_, -1);
  const Fd process = std::move(process_);
  if (process) {
    siginfo_t ended{};
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    while (::waitid(k_by_pidfd, static_cast<id_t>(process.get()), &ended, WEXITED) < 0 && errno == EINTR) {
    }
    return;
  }
  int status = 0;
  if (child <= 0 || ::waitpid(child, &status, WNOHANG) != 0) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddprun
