// Starting helper programs and waiting for what they do, each wait with a deadline.
#pragma once

#include <string>
#include <vector>

#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/process/child.hpp"
#include "ddprun/os/process/spawn.hpp"

namespace ddprun::testing {

// A request for tests/programs/test_worker with these arguments and an empty environment; it writes to
// /dev/null.
SpawnRequest worker_request(std::vector<std::string> arguments);
SpawnRequest launcher_request(std::vector<std::string> arguments);

// Fails the test when it was not started.
Child start(const SpawnRequest& request);
// Fails the test unless it ends within ten seconds; reaps it.
ExitStatus wait_for_end(Child& child);
// Any process, ours or not; fails the test unless it is gone within ten seconds.
void wait_until_gone(const Fd& pidfd);

// Bytes until `text` was seen (or the end for ""); fails the test after ten seconds without.
std::string read_until(int descriptor, const std::string& text);
// Runs a worker to its end and returns what it wrote.
std::string output_of(SpawnRequest request);

// "worker 12\n" and "worker " -> 12
int number_after(const std::string& text, const std::string& label);

}  // namespace ddprun::testing
