#include "os/process/signals.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <thread>

#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

int own_uid() { return static_cast<int>(::getuid()); }

}  // namespace

TEST_CASE("signals are read as values with their sender") {
  SignalSource signals({SIGUSR1, SIGCHLD});
  CHECK_FALSE(signals.read());
  ::kill(::getpid(), SIGUSR1);
  CHECK(signals.read() == SignalEvent{SIGUSR1, ::getpid(), SI_USER, own_uid()});
  CHECK_FALSE(signals.read());

  Child worker = start(worker_request({"exit_with", "0"}));
  pollfd ready{signals.descriptor().get(), POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  CHECK(signals.read() == SignalEvent{SIGCHLD, worker.pid(), CLD_EXITED, own_uid()});
  wait_for_end(worker);
}

TEST_CASE("the sender of a signal is named unless it is above us or a key") {
  Child worker = start(worker_request({"sleep_forever"}));
  while (capture_process(worker.pid())->name != "test_worker") std::this_thread::sleep_for(Milliseconds(1));
  const SignalEvent event{SIGTERM, worker.pid(), SI_USER, own_uid()};
  CHECK(describe_sender(event) == fmt::format("sent by test_worker, pid {}", worker.pid()));
  CHECK(describe_sender({SIGTERM, worker.pid(), SI_USER, own_uid() + 1}) ==
        fmt::format("sent by test_worker, pid {} of uid {}", worker.pid(), own_uid() + 1));
  worker.send_signal(SIGKILL);
  wait_for_end(worker);
  worker.reap();
  CHECK(describe_sender(event) == fmt::format("sent by pid {}", worker.pid()));
  CHECK(describe_sender({SIGTERM, worker.pid(), SI_USER, own_uid(), true}).empty());
  CHECK(describe_sender({SIGINT, 0, SI_KERNEL}).empty());
}

TEST_CASE("advance warnings are passed on, and what our own timers and limits send is not") {
  for (const int number : {SIGUSR1, SIGALRM, SIGCONT, SIGXCPU, SIGRTMIN, SIGRTMAX})
    CHECK(is_passed_on({number, 1, SI_USER}));
  CHECK_FALSE(is_passed_on({SIGXCPU, 0, SI_KERNEL}));
  for (const int number : {SIGVTALRM, SIGPROF, SIGXFSZ, SIGCHLD})
    CHECK_FALSE(is_passed_on({number, 1, SI_USER}));
}

TEST_CASE("no signal that others may send for a reason of their own ends us") {
  SignalSource signals(handled_signals());
  std::set<int> sent{SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGRTMIN, SIGRTMIN + 7, SIGRTMAX};
  for (const int number : sent) ::kill(::getpid(), number);
  while (const auto event = signals.read()) sent.erase(event->number);
  CHECK(sent.empty());
}

TEST_CASE("what we were started with ignored stays ignored") {
  const auto ignored = [] {
    const std::vector<int> numbers = capture_ignored_signals(handled_signals());
    return std::set<int>(numbers.begin(), numbers.end());
  };
  std::set<int> expected = ignored();  // a shell's & adds some
  expected.insert(SIGHUP);
  const auto before = ::signal(SIGHUP, SIG_IGN);
  {
    SignalSource signals(handled_signals());
    CHECK(ignored() == expected);
    ::kill(::getpid(), SIGHUP);
    CHECK_FALSE(signals.read());
  }
  ::signal(SIGHUP, before);
}

TEST_CASE("children can be waited for although our parent ignored SIGCHLD") {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  {
    const SignalSource signals(handled_signals());
    Child worker = start(worker_request({"exit_with", "3"}));
    CHECK(wait_for_end(worker).value == 3);
  }
  CHECK(::signal(SIGCHLD, before) == SIG_IGN);
}

TEST_CASE("a write to a closed pipe is an error, not a signal, and the mask is as before afterwards") {
  sigset_t mask;
  {
    const SignalSource signals(handled_signals());
    Pipe pipe = make_pipe();
    pipe.reader.close();
    CHECK(::write(pipe.writer.get(), "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  CHECK(::sigismember(&mask, SIGTERM) == 0);
}

namespace {

// In a grandchild, whose parent ends before the signal comes: its number, and then who sent that, as a
// letter.
void tell_where_it_came_from(int ready, int answers) {
  SignalSource signals({SIGTERM});
  const pid_t own = ::getpid();
  const pid_t parent = ::getppid();
  ::kill(parent, SIGKILL);
  while (::getppid() == parent) ::usleep(1000);
  if (::write(ready, &own, sizeof own) != sizeof own) ::_exit(1);
  pollfd readable{signals.descriptor().get(), POLLIN, 0};
  ::poll(&readable, 1, 10'000);
  const auto event = signals.read();
  const char answer = !event ? 'n' : event->from_above ? 'a' : 'b';
  ::_exit(::write(answers, &answer, 1) == 1 ? 0 : 1);
}

}  // namespace

TEST_CASE("a signal of a process that was above us is from above also when the one between has ended") {
  Pipe ready = make_pipe();
  Pipe answers = make_pipe();
  const pid_t between = ::fork();
  REQUIRE(between >= 0);
  if (between == 0) {
    if (::fork() == 0) tell_where_it_came_from(ready.writer.get(), answers.writer.get());
    while (true) ::pause();
  }
  ready.writer.close();
  answers.writer.close();
  pid_t own = 0;
  char letter = 0;
  REQUIRE(::read(ready.reader.get(), &own, sizeof own) == sizeof own);
  REQUIRE(::waitpid(between, nullptr, 0) == between);
  ::kill(own, SIGTERM);
  REQUIRE(::read(answers.reader.get(), &letter, 1) == 1);
  CHECK(letter == 'a');
}

TEST_CASE("a signal sent from beside is not from above, nor is a key's") {
  SignalSource signals({SIGUSR1});
  ::kill(::getpid(), SIGUSR1);
  const auto event = signals.read();
  REQUIRE(event);
  CHECK_FALSE(event->from_above);
  constexpr int k_key = 0x80;  // SI_KERNEL
  CHECK(SignalEvent{SIGINT, 0, k_key}.is_from_key());
}
