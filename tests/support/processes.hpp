// Starting helper programs and waiting for what they do, each wait with a deadline.
#pragma once

#include <string>
#include <vector>

#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::testing {

// A request for tests/programs/test_worker with these arguments and an empty environment; it writes to
// /dev/null.
os::SpawnRequest worker_request(std::vector<std::string> arguments);
os::SpawnRequest launcher_request(std::vector<std::string> arguments);

// Fails the test when it was not started.
os::Child start(const os::SpawnRequest& request);
// Fails the test unless it ends within ten seconds; reaps it.
ExitStatus wait_for_end(os::Child& child);
// Any process, ours or not; fails the test unless it is gone within ten seconds.
void wait_until_gone(const os::Fd& pidfd);

// Orphans come to us while this lives, as to an agent; fails the test where they cannot.
struct Adopting {
  Adopting();
  ~Adopting();
  Adopting(const Adopting&) = delete;
  Adopting& operator=(const Adopting&) = delete;
};

// Bytes until `text` was seen (or the end for ""); fails the test after ten seconds without.
std::string read_until(int descriptor, const std::string& text);
// Runs a worker to its end and returns what it wrote.
std::string output_of(os::SpawnRequest request);

// "worker 12\n" and "worker " -> 12
int number_after(const std::string& text, const std::string& label);

}  // namespace ddprun::testing
