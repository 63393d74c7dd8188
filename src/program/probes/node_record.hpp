// Record of this node for --check, except its connections.
#pragma once

#include "check/host_record.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::probes {

struct CheckedNode {
  int rank = 0;
  int workers = 1;         // number on this node
  std::string address;     // address for other nodes; empty: there are none
  std::string log_folder;  // empty: none
  bool quick = false;      // write nothing, ask no name service, and wait for a second at most
};

// Takes as long as the slowest of the file systems and name services, which are asked side by side, and five
// seconds at most.
check::HostRecord make_node_record(const CheckedNode& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::probes
