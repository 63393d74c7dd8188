// A node that is not here: --dry-run --topology FILE --gpus N.
#pragma once

#include <optional>

#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::placement {

// Puts the described node in the place of this host's processors, memory and GPUs: all of its CPUs may be
// used (those its description leaves to programs), and the first `gpus` of its GPUs (all without a number)
// are there. A description without GPUs gets that many, spread evenly over its NUMA nodes, and a doubt of the
// host says so; a multiple of those it names is that many partitions of each. Throws UsageError for any other
// number above theirs.
void imagine_node(facts::HostFacts& host, const facts::Topology& topology,
                  const std::optional<Sourced<int>>& gpus);

// Returns the name of the node whose cores and devices are described: that of the described topology, else
// `host`.
std::string node_name(const facts::HostFacts& facts, const std::string& host);

}  // namespace ddprun::placement
