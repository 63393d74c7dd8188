#include "ddprun/os/answering_child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/system_failure.hpp"

namespace ddprun {

namespace {

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
}

AnsweringChild::AnsweringChild(AnsweringChild&& other) noexcept
    : answer_(std::move(other.answer_)), child_(std::exchange(other.child_, -1)) {}

AnsweringChild& AnsweringChild::operator=(AnsweringChild&& other) noexcept {
  end();
  answer_ = std::move(other.answer_);
  child_ = std::exchange(other.child_, -1);
  return *this;
}

void AnsweringChild::end() {
  const pid_t child = std::exchange(child_, -1);
  int status = 0;
  // Where it has ended, or a sweep has reaped it, its number may be another process' by now.
  if (child <= 0 || ::waitpid(child, &status, WNOHANG) != 0) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddprun
