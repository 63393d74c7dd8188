#include "os/process/serving_child.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

constexpr Milliseconds k_ample{20000};

// Counts its requests, hangs at "hang" and dies at "die".
ServingChild::Serve serve() {
  return [count = 0](const std::string& request) mutable {
    if (request == "hang") ::pause();
    if (request == "die") ::raise(SIGKILL);
    return request + " " + std::to_string(++count) + " " + std::to_string(::getpid());
  };
}

std::string words(const ChildAnswer& answer) { return answer.bytes ? *answer.bytes : answer.problem; }

}  // namespace

TEST_CASE("one child answers many requests") {
  ServingChild child(serve, k_ample);
  CHECK(child.child() == -1);
  const std::string first = words(child.ask("a", k_ample));
  const std::string pid = std::to_string(child.child());
  CHECK(first == "a 1 " + pid);
  CHECK(words(child.ask("", k_ample)) == " 2 " + pid);
  CHECK(words(child.ask(std::string(20000, 'x'), k_ample)) == std::string(20000, 'x') + " 3 " + pid);
  CHECK(words(child.ask(std::string(ServingChild::k_limit, 'x'), k_ample)) == "more than 65536 bytes");
}

TEST_CASE("a child that left for want of requests is started anew") {
  ServingChild child(serve, Milliseconds{0});
  for (int i = 0; i < 3; ++i) {
    CHECK(words(child.ask("a", k_ample)).starts_with("a 1 "));
    siginfo_t ended{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child.child()), &ended, WEXITED | WNOWAIT) == 0);
  }
}

TEST_CASE("a request that is not answered in time ends the child and no other request") {
  ServingChild child(serve, k_ample);
  const ChildAnswer late = child.ask("hang", Milliseconds{50});
  CHECK(late.timed_out);
  CHECK(late.problem == "no answer within 50 ms");
  CHECK(child.child() == -1);
  CHECK(words(child.ask("a", k_ample)).starts_with("a 1 "));
}

TEST_CASE("a child that dies of a request is no answer") {
  ServingChild child(serve, k_ample);
  CHECK(words(child.ask("die", k_ample)) == "the process that asks has ended");
  CHECK(words(child.ask("a", k_ample)).starts_with("a 1 "));
}
