// Record of this node for --check, except its connections.
#pragma once

#include <optional>

#include "base/duration.hpp"
#include "check/host_record.hpp"
#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::probes {

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

}  // namespace ddprun::probes
