#include "os/process/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "catch.hpp"
#include "os/process/process_table.hpp"
#include "os/process/signals.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

struct Started {
  Child child;
  Fd output;
  std::string said;
};

// Starts a worker and waits for its first line.
Started start_and_hear(std::vector<std::string> arguments, ChildGroup group = ChildGroup::own_group) {
  Pipe pipe = make_pipe();
  SpawnRequest request = worker_request(std::move(arguments));
  request.standard_output = pipe.writer.get();
  request.group = group;
  Child child = start(request);
  pipe.writer.close();
  std::string said = read_until(pipe.reader.get(), "\n");
  return {std::move(child), std::move(pipe.reader), std::move(said)};
}

}  // namespace

TEST_CASE("endings are told apart") {
  Child exited = start(worker_request({"exit_with", "7"}));
  CHECK(wait_for_end(exited) == ExitStatus{ExitStatus::Kind::exited, 7, {}, false});
  Child killed = start(worker_request({"die_by", std::to_string(SIGTERM)}));
  CHECK(wait_for_end(killed) == ExitStatus{ExitStatus::Kind::signalled, SIGTERM, {}, false});
}

TEST_CASE("an ending is seen without reaping, and after reaping nothing is signalled") {
  Started worker = start_and_hear({"sleep_forever"});
  CHECK_FALSE(worker.child.ending());
  CHECK_FALSE(worker.child.reap());
  CHECK(worker.child.send_signal(SIGUSR1));
  wait_until_gone(open_pidfd(worker.child.pid()));
  CHECK(worker.child.ending() == worker.child.ending());
  CHECK(worker.child.send_signal_to_group(0));  // the number is still its own
  CHECK(worker.child.reap() == ExitStatus{ExitStatus::Kind::signalled, SIGUSR1, {}, false});
  CHECK_FALSE(worker.child.send_signal(0));
  CHECK_FALSE(worker.child.send_signal_to_group(0));
  CHECK_FALSE(worker.child.send_signal_to_family(0));
}

TEST_CASE("without a pidfd, SIGCHLD says when to look") {
  SignalSource signals({SIGCHLD});
  Started worker = start_and_hear({"sleep_forever"});
  Child child(worker.child.pid(), Fd(), true);
  CHECK_FALSE(child.ending());
  CHECK(child.send_signal(SIGTERM));
  pollfd ready{signals.descriptor().get(), POLLIN, 0};
  while (!child.ending()) REQUIRE(::poll(&ready, 1, 10'000) == 1);  // it may be another child's at first
  CHECK(child.reap() == ExitStatus{ExitStatus::Kind::signalled, SIGTERM, {}, false});
}

TEST_CASE("a worker that ignores SIGTERM ends by SIGKILL") {
  Started worker = start_and_hear({"ignore_term"});
  CHECK(worker.child.send_signal(SIGTERM));
  CHECK_FALSE(worker.child.ending());
  CHECK(worker.child.send_signal_to_group(SIGKILL));
  CHECK(wait_for_end(worker.child).value == SIGKILL);
}

TEST_CASE("only a leader's group is signalled") {
  Started worker = start_and_hear({"sleep_forever"}, ChildGroup::ours);
  CHECK_FALSE(worker.child.send_signal_to_group(SIGKILL));
  CHECK(worker.child.send_signal_to_family(SIGKILL));
  CHECK(wait_for_end(worker.child).value == SIGKILL);
}

TEST_CASE("a stop is seen once") {
  Started worker = start_and_hear({"sleep_forever"});
  CHECK_FALSE(worker.child.take_stop());
  worker.child.send_signal(SIGSTOP);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(worker.child.pid()), &info, WSTOPPED | WNOWAIT) == 0);
  CHECK(worker.child.take_stop() == SIGSTOP);
  CHECK_FALSE(worker.child.take_stop());
  worker.child.send_signal(SIGKILL);
  wait_for_end(worker.child);
}

TEST_CASE("a held signal reaches the child only when it is released") {
  Started worker = start_and_hear({"sleep_forever"});
  const int pid = worker.child.pid();
  if (!hold_signals(pid)) return;  // a sandbox that forbids ptrace()
  CHECK_FALSE(next_held_signal(pid));
  const auto send_and_hold = [&](int number) {
    worker.child.send_signal(number);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT) == 0);
    CHECK_FALSE(worker.child.ending());
    CHECK_FALSE(reap(pid));  // it stands still, and has not ended
  };
  send_and_hold(SIGTERM);
  CHECK(next_held_signal(pid) == SIGTERM);
  release_signal(pid, 0);
  send_and_hold(SIGTERM);
  CHECK(next_held_signal(pid) == SIGTERM);
  release_signal(pid, SIGTERM);
  CHECK(wait_for_end(worker.child) == ExitStatus{ExitStatus::Kind::signalled, SIGTERM, {}, false});
  CHECK_FALSE(next_held_signal(pid));
}

TEST_CASE("a child whose signals are held is stopped and continued, and killed at once") {
  Started worker = start_and_hear({"sleep_forever"});
  const int pid = worker.child.pid();
  if (!hold_signals(pid)) return;
  const auto state = [&] { return capture_process(pid)->state; };
  const auto answer_until = [&](const auto& holds) {
    for (int i = 0; i < 5000 && !holds(); ++i) {
      while (const auto number = next_held_signal(pid)) release_signal(pid, *number);
      std::this_thread::sleep_for(Milliseconds(1));
    }
    CHECK(holds());
  };
  worker.child.send_signal(SIGSTOP);
  answer_until([&] { return state() == 't' || state() == 'T'; });
  worker.child.send_signal(SIGCONT);
  answer_until([&] { return state() == 'S'; });
  worker.child.send_signal(SIGKILL);
  CHECK(wait_for_end(worker.child).value == SIGKILL);
}

TEST_CASE("a signal to the family reaches a descendant in a session of its own") {
  Started worker = start_and_hear({"leave_grandchild", "stay"});
  const Fd grandchild = open_pidfd(number_after(worker.said, "grandchild "));
  REQUIRE(worker.child.send_signal_to_family(SIGKILL));
  wait_for_end(worker.child);
  wait_until_gone(grandchild);
}

TEST_CASE("the sweep ends and reaps orphans that left their worker's session") {
  const Adopting adopting;
  Started worker = start_and_hear({"leave_grandchild"});
  const int number = number_after(worker.said, "grandchild ");
  const Fd grandchild = open_pidfd(number);
  wait_for_end(worker.child);
  Started spared = start_and_hear({"sleep_forever"});
  for (int round = 0; kill_descendants({spared.child.pid()}) != 0 && round < 5000; ++round)
    std::this_thread::sleep_for(Milliseconds(2));
  wait_until_gone(grandchild);
  CHECK_FALSE(capture_process(number));  // reaped, too
  CHECK_FALSE(spared.child.ending());
  spared.child.send_signal(SIGKILL);
  wait_for_end(spared.child);
}

TEST_CASE("a process whose first thread has ended goes on, and the sweep ends it") {
  Started worker = start_and_hear({"end_first_thread"});
  std::optional<ProcessEntry> entry;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  do {
    entry = capture_process(worker.child.pid());
    REQUIRE(entry);
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  } while (entry->state != 'Z');
  CHECK_FALSE(has_ended(*entry));
  CHECK_FALSE(worker.child.ending());
  CHECK(worker.child.send_signal_to_family(SIGKILL));
  wait_until_gone(worker.child.pidfd());
  entry = capture_process(worker.child.pid());
  REQUIRE(entry);
  CHECK(has_ended(*entry));
  wait_for_end(worker.child);
}

TEST_CASE("an ending that a tracer holds back is seen when it lets go, and SIGCHLD says so") {
  SignalSource signals({SIGCHLD});
  Started worker = start_and_hear({"sleep_forever"});
  Pipe told = make_pipe();
  Pipe release = make_pipe();
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = 0;
    const bool seized = ::ptrace(PTRACE_SEIZE, worker.child.pid(), nullptr, nullptr) == 0;
    const ssize_t said = ::write(told.writer.get(), seized ? "y" : "n", 1);
    _exit(said == 1 && ::read(release.reader.get(), &byte, 1) == 1 ? 0 : 1);
  }
  char seized = 0;
  REQUIRE(::read(told.reader.get(), &seized, 1) == 1);
  if (seized != 'y') {
    WARN("not tested: ptrace(2) is not allowed here");
    ::kill(tracer, SIGKILL);
    worker.child.send_signal(SIGKILL);
    wait_for_end(worker.child);
    ::waitpid(tracer, nullptr, 0);
    return;
  }
  worker.child.send_signal(SIGKILL);  // of any other the tracer would be asked first
  wait_until_gone(worker.child.pidfd());
  CHECK_FALSE(worker.child.ending());
  CHECK(capture_stuck_process(worker.child.pid()).tracer == tracer);
  while (signals.read()) continue;
  REQUIRE(::write(release.writer.get(), "x", 1) == 1);
  wait_until_gone(open_pidfd(tracer));
  pollfd ready{signals.descriptor().get(), POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  CHECK(worker.child.reap() == ExitStatus{ExitStatus::Kind::signalled, SIGKILL, {}, false});
  reap(tracer);
}

TEST_CASE("orphans are reaped behind known children that have ended and keep their numbers") {
  const Adopting adopting;
  std::vector<Child> ended;
  for (int i = 0; i < 3; ++i) ended.push_back(start(worker_request({"exit_with", "0"})));
  for (const Child& child : ended) wait_until_gone(child.pidfd());
  Started worker = start_and_hear({"leave_grandchild"});
  const int number = number_after(worker.said, "grandchild ");
  wait_until_gone(worker.child.pidfd());
  ::kill(number, SIGKILL);
  wait_until_gone(open_pidfd(number));
  reap_orphans({ended[0].pid(), ended[1].pid(), ended[2].pid(), worker.child.pid()});
  CHECK_FALSE(capture_process(number));
  for (Child& child : ended) CHECK(child.reap() == ExitStatus{});
  CHECK(worker.child.reap() == ExitStatus{});
}

TEST_CASE("adopted orphans are reaped, known children are left to their owner") {
  const Adopting adopting;
  Started worker = start_and_hear({"leave_grandchild"});
  const int number = number_after(worker.said, "grandchild ");
  wait_until_gone(worker.child.pidfd());
  ::kill(number, SIGKILL);
  wait_until_gone(open_pidfd(number));
  reap_orphans({worker.child.pid()});
  CHECK_FALSE(capture_process(number));
  CHECK(worker.child.reap() == ExitStatus{});
}
