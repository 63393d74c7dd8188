// Binding of the calling process, as a Binding says.
// In two steps, so that a forked child has nothing to allocate.
#pragma once

#include <vector>

#include "facts/binding.hpp"

namespace ddprun::os {

// Part of a binding that the kernel refused: errno, 0 if granted. The process continues in any case.
struct BindingRefusal {
  int cpus = 0;    // sched_setaffinity(2): EINVAL where none of them may be used (any more)
  int memory = 0;  // set_mempolicy(2): EPERM in many containers, ENOSYS without NUMA, EINVAL for no such node
  friend bool operator==(const BindingRefusal&, const BindingRefusal&) = default;
};

// Returns a set of numbers in the kernel's words.
std::vector<unsigned long> make_bit_mask(const std::vector<int>& numbers);

struct PreparedBinding {
  std::vector<unsigned long> cpus;       // empty: not asked for
  std::vector<unsigned long> otherwise;  // mask used where `cpus` is empty or refused; empty: unchanged
  std::vector<unsigned long> nodes;
  int policy = 0;  // a mode of set_mempolicy(2); 0: untouched
};
PreparedBinding prepare_binding(const facts::Binding& binding, const std::vector<int>& otherwise);

// Binds in bare calls (bare_call.hpp). If the CPUs are refused the memory is left alone too: a process that
// may run anywhere is no better off with memory from one place. Several preferred nodes need Linux 5.15
// (MPOL_PREFERRED_MANY); before it they are left alone, which is no refusal.
BindingRefusal bind_self(const PreparedBinding& binding) noexcept;

}  // namespace ddprun::os
