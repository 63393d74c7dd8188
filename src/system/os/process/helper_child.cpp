#include "os/process/helper_child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/process_table.hpp"
#include "os/process/signals.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_end_limit{1000};

// Holds the helpers of this process, which has one thread.
std::vector<int>& helpers() {
  static std::vector<int> pids;
  return pids;
}

std::optional<ExitStatus> end_by_pidfd(const Fd& process) {
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  wait_until_ready(process.get(), now() + k_end_limit);
  return reap(process);
}

std::optional<ExitStatus> end_by_number(pid_t child) {
  siginfo_t state{};
  if (::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0)
    return std::nullopt;
  ::kill(child, SIGKILL);
  for (const TimePoint deadline = now() + k_end_limit; now() < deadline;) {
    if (const auto status = reap(child)) return status;
    const timespec moment{0, 1000000};
    ::nanosleep(&moment, nullptr);
  }
  return std::nullopt;
}

[[noreturn]] void run_and_leave(const std::function<int()>& call, pid_t parent) {
  helpers().clear();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    ::_exit(call());
  } catch (...) {
    ::_exit(1);
  }
}

}  // namespace

pid_t fork_helper(const std::function<int()>& call) {
  const BlockedSignals blocked;
  if (blocked.error() != 0) {
    errno = blocked.error();
    return -1;
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_and_leave(call, parent);
  if (child > 0) note_helper(child);
  return child;
}

pid_t fork_outliving_helper(const char* name, const std::vector<int>& kept,
                            const std::function<int(const std::vector<int>& kept)>& call) {
  return fork_helper([&] {
    ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    ::prctl(PR_SET_NAME, name, 0, 0, 0);
    ::setsid();
    return call(close_all_but(kept));
  });
}

std::optional<ExitStatus> end_helper(pid_t child, const Fd& process) {
  if (child <= 0) return std::nullopt;
  return process ? end_by_pidfd(process) : end_by_number(child);
}

std::vector<int> running_helpers() { return helpers(); }

void note_helper(pid_t child) { helpers().push_back(child); }

void forget_helper(pid_t child) { std::erase(helpers(), child); }

AnsweringChild::AnsweringChild(const std::function<std::string()>& call, const std::string& purpose,
                               const std::function<void()>& afterwards) {
  Pipe pipe = make_pipe();
  answer_ = std::move(pipe.reader);
  child_ = fork_helper([&] {
    write_whole(pipe.writer.get(), call());
    pipe.writer.close();
    if (afterwards) afterwards();
    return 0;
  });
  const int error = errno;
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

std::optional<ExitStatus> AnsweringChild::end() {
  return end_helper(std::exchange(child_, -1), std::exchange(process_, Fd()));
}

namespace {

constexpr int k_lowest_priority = 19;

std::string import_torch(const std::string& python) {
  const Fd null = open_null();
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), descriptor);
  ::setpriority(PRIO_PROCESS, 0, k_lowest_priority);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ::execl(python.c_str(), python.c_str(), "-c", "import torch", nullptr);
  return {};
}

}  // namespace

AnsweringChild start_warm_up(const std::string& python) {
  return AnsweringChild([&python] { return import_torch(python); }, "read the files of torch");
}

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
