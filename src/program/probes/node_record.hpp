// Record of this node for --check, except its connections, and the measurement of --check=deep.
#pragma once

#include <optional>
#include <string_view>

#include "base/duration.hpp"
#include "check/finding.hpp"
#include "check/host_record.hpp"
#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::probes {

// Record of this node for --check, except its connections.

struct CheckedNode {
  int rank = 0;
  int workers = 1;         // number on this node
  std::string address;     // address for other nodes; empty: there are none
  std::string log_folder;  // empty: none
  bool quick = false;      // write nothing, ask no name service, and wait for `patience` at most
  bool again = false;      // between attempts: without the home, which can be no reason to leave the node
  Milliseconds patience{1000};
};

// Takes as long as the slowest of the file systems and name services, which are asked side by side, and five
// seconds at most; time in which that gets no CPU does not count, up to another 12 s.
check::HostRecord make_node_record(const CheckedNode& node, const facts::Snapshot& snapshot);

// Appends this node's name to --exclude-file, if there is one, once. Returns a notice if it cannot be
// written.
std::optional<allocation::Notice> exclude_node(const plan::NodeProposal& node);

// --check=deep: a real all-reduce by torch on all ranks, and a matmul on each GPU.

// Runs in the Python of the job, with the variables of this worker. Waits for the other ranks, three minutes
// at most; a failure is an error of the result.
check::DeepResult run_deep_check(int rank, const facts::Snapshot& snapshot);

// The text of deep_check.py.

extern const std::string_view k_deep_check_script;

}  // namespace ddprun::probes
