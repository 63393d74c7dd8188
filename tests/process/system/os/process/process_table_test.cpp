#include "os/process/process_table.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "os/capture/capture.hpp"
#include "os/process/child_call.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

ProcessEntry process(int pid, int parent, int group, int session) {
  return {pid, "p", 'S', parent, group, session, 0};
}

std::vector<int> pids(const ProcessTable& table) {
  std::vector<int> result;
  for (const ProcessEntry& entry : table) result.push_back(entry.pid);
  return result;
}

// 10 launcher; 20 worker with child 21 in a session of its own; 22 orphan of its group; 30 another; 40 a
// stranger.
const ProcessTable k_table = {process(10, 1, 10, 5), process(20, 10, 20, 5), process(21, 20, 21, 21),
                              process(22, 1, 20, 5), process(30, 10, 30, 5), process(31, 30, 30, 5),
                              process(40, 1, 40, 5)};

}  // namespace

TEST_CASE("a process name may look like the rest of the line") {
  const auto entry = parse_process_stat(
      "42 (a) R 1 (b) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 6 0 123456 2 3 4 5 6 7 8\n");
  REQUIRE(entry);
  CHECK(entry->pid == 42);
  CHECK(entry->name == "a) R 1 (b");
  CHECK(entry->state == 'S');
  CHECK(entry->parent == 7);
  CHECK(entry->group == 8);
  CHECK(entry->session == 9);
  CHECK(entry->start_time == 123456);
  CHECK(entry->threads == 6);
  CHECK_FALSE(parse_process_stat(""));
  CHECK_FALSE(parse_process_stat("42 (short) S 7 8"));
  CHECK_FALSE(parse_process_stat("42 (x) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 soon"));
}

TEST_CASE("descendants and families") {
  CHECK(pids(find_descendants(k_table, 10)) == std::vector<int>{20, 21, 30, 31});
  CHECK(pids(find_descendants(k_table, 10, {30})) == std::vector<int>{20, 21});
  CHECK(pids(find_families(k_table, {20})) == std::vector<int>{20, 21, 22});
  CHECK(pids(find_families(k_table, {})).empty());
}

TEST_CASE("in a PID namespace with another's /proc there is nobody to be seen or signalled") {
  CHECK(sees_own_processes());
  const ChildAnswer answer = call_in_child(
      [] {
        if (::unshare(CLONE_NEWPID) != 0) return std::string("not allowed");
        const pid_t first = ::fork();
        if (first == 0) {
          const ProcessEntry forged{1, "init", 'S', 0, 1, 1, 0};
          const bool blind = !sees_own_processes() && capture_processes().empty() &&
                             capture_children().empty() && !send_signal_to(forged, 0) &&
                             !capture_process(1) && capture_ancestors().empty();
          ::_exit(blind ? 0 : 1);
        }
        int status = -1;
        ::waitpid(first, &status, 0);
        return std::to_string(status);
      },
      Milliseconds{20000});
  REQUIRE(answer.bytes);
  if (*answer.bytes == "not allowed") {
    WARN("not tested: there may be no new PID namespace here");
    return;
  }
  CHECK(*answer.bytes == "0");
}

TEST_CASE("a number that is in use again is not signalled") {
  Child worker = start(worker_request({"sleep_forever"}));
  auto entry = capture_process(worker.pid());
  REQUIRE(entry);
  CHECK(entry->parent == ::getpid());
  ProcessEntry earlier = *entry;
  earlier.start_time -= 1;
  CHECK_FALSE(send_signal_to(earlier, SIGKILL));
  CHECK(send_signal_to(*entry, SIGKILL));
  CHECK(wait_for_end(worker).value == SIGKILL);
}
