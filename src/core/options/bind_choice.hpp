// Choice of binding: --bind, --numa-binding, --membind.
#pragma once

#include <string>
#include <vector>

namespace ddprun::options {

enum class BindMode {
  automatic,     // near, and a share of the cores that are near no GPU; without GPUs an even split
  near,          // the cores near the worker's GPUs, shared out, and no others
  none,          // no binding; no topology is read
  node,          // all CPUs of the GPU's NUMA node
  socket,        // all CPUs of that node's package
  exclusive,     // disjoint slices of the node's physical cores
  core_complex,  // one shared L3 each
  lists,         // the CPUs listed
};

struct BindChoice {
  BindMode mode = BindMode::automatic;
  // BindMode::lists: one list of CPUs for each worker, or a single one that all share out.
  std::vector<std::vector<int>> lists;
  bool whole_cores = false;  // the SMT siblings of each listed CPU are meant too
  std::string origin = "default";
  friend bool operator==(const BindChoice&, const BindChoice&) = default;
};

// Parses the value of --bind:
// auto | near | none | node | socket | exclusive | core-complex
// core:LIST[:LIST...]   cores by the kernel's number of any of their CPUs, siblings included; a list a worker
// cpu:LIST[:LIST...]    exactly these CPUs; also list:..., as PALS' --cpu-bind writes it
// mask:HEX[,HEX...]     a mask a worker; also mask_cpu:..., as srun --cpu-bind writes it
// map_cpu:N[,N...]      a CPU a worker, as srun --cpu-bind writes it
// Throws UsageError beginning with `origin`.
BindChoice parse_bind(const std::string& text, const std::string& origin);
std::string to_string(BindMode mode);  // "auto", "core-complex", "lists", ...

enum class MemoryBind { automatic, preferred, bind, none };

}  // namespace ddprun::options
