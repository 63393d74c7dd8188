// Files with one host a line, a line for each slot: PBS_NODEFILE, LSB_DJOB_HOSTFILE.
#pragma once

#include <string>
#include <vector>

namespace ddprun::allocation {

inline constexpr std::size_t k_node_file_limit = 1 << 20;  // bytes

struct NodeFile {
  std::vector<std::string> hosts;  // each once, by first appearance; compared as same_host does
  std::vector<int> slots;          // lines of each
};

// Throws Error naming the file and the line for anything but host names, and for a file without any.
NodeFile parse_node_file(const std::string& contents, const std::string& path);

}  // namespace ddprun::allocation
