#include "os/process/bind_self.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace ddprun::os {

namespace {

constexpr std::size_t k_bits = sizeof(unsigned long) * CHAR_BIT;
constexpr int k_preferred_many = 5;  // MPOL_PREFERRED_MANY; headers before Linux 5.15 do not know it

int mode_of(const facts::Binding& binding) {
  if (binding.policy == facts::MemoryPolicy::untouched || binding.memory_nodes.empty()) return MPOL_DEFAULT;
  if (binding.policy == facts::MemoryPolicy::bind) return MPOL_BIND;
  return binding.memory_nodes.size() == 1 ? MPOL_PREFERRED : k_preferred_many;
}

int set_cpus(const std::vector<unsigned long>& mask) noexcept {
  const auto* set = reinterpret_cast<const cpu_set_t*>(mask.data());
  return ::sched_setaffinity(0, mask.size() * sizeof(unsigned long), set) == 0 ? 0 : errno;
}

int set_memory(int mode, const std::vector<unsigned long>& nodes) noexcept {
  // The kernel counts one bit less than it is told (get_nodes in mm/mempolicy.c).
  if (::syscall(SYS_set_mempolicy, mode, nodes.data(), nodes.size() * k_bits + 1) == 0) return 0;
  return mode == k_preferred_many && errno == EINVAL ? 0 : errno;
}

}  // namespace

std::vector<unsigned long> make_bit_mask(const std::vector<int>& numbers) {
  std::vector<unsigned long> mask;
  for (const int each : numbers) {
    const auto number = static_cast<std::size_t>(each);
    if (mask.size() <= number / k_bits) mask.resize(number / k_bits + 1);
    mask[number / k_bits] |= 1UL << (number % k_bits);
  }
  return mask;
}

PreparedBinding prepare_binding(const facts::Binding& binding, const std::vector<int>& otherwise) {
  return {make_bit_mask(binding.cpus), make_bit_mask(otherwise), make_bit_mask(binding.memory_nodes),
          mode_of(binding)};
}

BindingRefusal bind_self(const PreparedBinding& binding) noexcept {
  BindingRefusal refusal;
  if (!binding.cpus.empty()) refusal.cpus = set_cpus(binding.cpus);
  if ((binding.cpus.empty() || refusal.cpus != 0) && !binding.otherwise.empty()) set_cpus(binding.otherwise);
  if (refusal.cpus == 0 && binding.policy != MPOL_DEFAULT)
    refusal.memory = set_memory(binding.policy, binding.nodes);
  return refusal;
}

}  // namespace ddprun::os
