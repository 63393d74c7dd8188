#include "os/process/child_call.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

constexpr Milliseconds k_ample{20000};

void bind_to_first_cpu() {
  cpu_set_t own, first;
  CPU_ZERO(&first);
  ::sched_getaffinity(0, sizeof own, &own);
  for (int cpu = 0; CPU_COUNT(&first) == 0 && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &own)) CPU_SET(cpu, &first);
  }
  ::sched_setaffinity(0, sizeof first, &first);
}

std::string use_cpu(Milliseconds time) {
  timespec used{};
  do ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  while (std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec} < time);
  return "used";
}

bool no_children() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a child's answer comes back whole") {
  const std::string large(1 << 20, 'x');
  CHECK(call_in_child([&] { return large; }, k_ample).bytes == large);
  CHECK(call_in_child([] { return std::string(); }, k_ample).bytes == "");
  CHECK(call_in_child([] { return std::string("\0a", 2); }, k_ample).bytes == std::string("\0a", 2));
  CHECK(no_children());
}

TEST_CASE("a child that never answers is killed at the deadline") {
  const ChildAnswer answer = call_in_child(
      [] {
        while (true) ::pause();
        return std::string();
      },
      Milliseconds{50});
  CHECK_FALSE(answer.bytes);
  CHECK(answer.timed_out);
  CHECK(answer.problem == "no answer within 50 ms");
  CHECK(no_children());
}

TEST_CASE("a child that ends without an answer says how") {
  const auto problem = [](void (*end)()) {
    const ChildAnswer answer = call_in_child(
        [end] {
          end();
          return std::string("answer");
        },
        k_ample);
    CHECK_FALSE(answer.bytes);
    CHECK_FALSE(answer.timed_out);
    return answer.problem;
  };
  CHECK(problem([] { ::_exit(7); }) == "ended with code 7");
  CHECK(problem([] { ::raise(SIGKILL); }) == "ended by signal 9");
  CHECK(problem([] { throw std::runtime_error("lost"); }) == "ended with code 1");
  CHECK(no_children());
}

TEST_CASE("an answer past the limit is refused") {
  const ChildAnswer answer = call_in_child([] { return std::string(1001, 'x'); }, k_ample, 1000);
  CHECK_FALSE(answer.bytes);
  CHECK(answer.problem == "the answer is longer than 1000 bytes");
}

TEST_CASE("our signal handlers do not run in the child") {
  const std::string blocked = *call_in_child(
                                   [] {
                                     sigset_t mask;
                                     ::sigprocmask(SIG_SETMASK, nullptr, &mask);
                                     return std::to_string(::sigismember(&mask, SIGINT));
                                   },
                                   k_ample)
                                   .bytes;
  CHECK(blocked == "1");
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  CHECK(::sigismember(&mask, SIGINT) == 0);
}

TEST_CASE("calls run side by side, each with its own deadline") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  // The first waits for the second.
  ChildCall first([&] {
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 1 ? std::string(1, byte) : std::string("no byte");
  });
  ChildCall second([&] { return std::to_string(::write(ends[1], "x", 1)); });
  ChildCall third([] {
    while (true) ::pause();
    return std::string();
  });
  CHECK(first.wait(k_ample).bytes == "x");
  CHECK(second.wait(k_ample).bytes == "1");
  CHECK(third.wait(Milliseconds{50}).timed_out);
  CHECK(no_children());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a call that nobody waits for is ended") {
  {
    const ChildCall call([] {
      while (true) ::pause();
      return std::string();
    });
  }
  CHECK(no_children());
}

TEST_CASE("an answer that came in time counts though it is read later") {
  ChildCall call([] { return std::string("x"); });
  siginfo_t ended{};
  REQUIRE(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0);
  CHECK(call.wait(Milliseconds{0}).bytes == "x");
}

TEST_CASE("time in which a call gets no CPU does not count, and in which it waits for something else does") {
  const Milliseconds limit{100};
  {
    const ChildCall rival([] {
      bind_to_first_cpu();
      return use_cpu(Milliseconds{400});
    });
    ChildCall starved([] {
      const sched_param none{};
      bind_to_first_cpu();
      ::sched_setscheduler(0, SCHED_IDLE, &none);
      return use_cpu(Milliseconds{5});
    });
    CHECK(starved.wait(limit, 10 * k_ample).bytes == "used");
  }
  ChildCall waiting([] {
    while (true) ::pause();
    return std::string();
  });
  CHECK(waiting.wait(limit, k_ample).problem == "no answer within 100 ms");
}
