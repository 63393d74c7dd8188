#include "os/process/bind_self.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <new>

namespace ddprun::os {

namespace {

constexpr std::size_t k_bits = sizeof(unsigned long) * CHAR_BIT;
constexpr int k_preferred_many = 5;  // MPOL_PREFERRED_MANY; headers before Linux 5.15 do not know it

int mode_of(const facts::Binding& binding) {
  if (binding.policy == facts::MemoryPolicy::untouched || binding.memory_nodes.empty()) return MPOL_DEFAULT;
  if (binding.policy == facts::MemoryPolicy::bind) return MPOL_BIND;
  return binding.memory_nodes.size() == 1 ? MPOL_PREFERRED : k_preferred_many;
}

DDPRUN_BARE int set_cpus(const std::vector<unsigned long>& mask) noexcept {
  const std::size_t size = mask.size() * sizeof(unsigned long);
  return static_cast<int>(
      -bare_call(SYS_sched_setaffinity, 0, static_cast<long>(size), as_word(mask.data())));
}

DDPRUN_BARE int set_memory(int mode, const std::vector<unsigned long>& nodes) noexcept {
  // The kernel counts one bit less than it is told (get_nodes in mm/mempolicy.c).
  const std::size_t bits = nodes.size() * k_bits + 1;
  const long answer = bare_call(SYS_set_mempolicy, mode, as_word(nodes.data()), static_cast<long>(bits));
  return mode == k_preferred_many && answer == -EINVAL ? 0 : static_cast<int>(-answer);
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

DDPRUN_BARE BindingRefusal bind_self(const PreparedBinding& binding) noexcept {
  BindingRefusal refusal{0, 0};
  if (binding.cpus.size() != 0) refusal.cpus = set_cpus(binding.cpus);
  const bool elsewhere = binding.cpus.size() == 0 || refusal.cpus != 0;
  if (elsewhere && binding.otherwise.size() != 0) set_cpus(binding.otherwise);
  if (refusal.cpus == 0 && binding.policy != MPOL_DEFAULT)
    refusal.memory = set_memory(binding.policy, binding.nodes);
  return refusal;
}

ExitStatus not_started(const SpawnFailure& failure) {
  return {ExitStatus::Kind::not_started, failure.error, failure.stage, false};
}

struct SharedStart::Page {
  bool failed = false;
  SpawnFailure failure{};
  std::atomic<bool> bound{false};
  BindingRefusal refusal;
  std::atomic<bool> released{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "it is shared by processes");
};

std::shared_ptr<SharedStart> SharedStart::make(bool separate) {
  if (!separate) return std::shared_ptr<SharedStart>(new SharedStart(new Page, false));
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {};
  return std::shared_ptr<SharedStart>(new SharedStart(new (page) Page{}, true));
}

SharedStart::~SharedStart() {
  if (is_mapped_) {
    ::munmap(page_, sizeof(Page));
  } else {
    delete page_;
  }
}

void SharedStart::write_failure(const SpawnFailure& failure) noexcept {
  page_->failure = failure;
  page_->failed = true;
}

void SharedStart::write_refusal(const BindingRefusal& refusal) noexcept {
  page_->refusal = refusal;
  page_->bound.store(true, std::memory_order_release);
}

bool SharedStart::is_released() const noexcept { return page_->released.load(std::memory_order_relaxed); }

std::optional<SpawnFailure> SharedStart::failure() const {
  return page_->failed ? std::optional(page_->failure) : std::nullopt;
}

std::optional<BindingRefusal> SharedStart::refusal() const {
  return page_->bound.load(std::memory_order_acquire) ? std::optional(page_->refusal) : std::nullopt;
}

void SharedStart::release() noexcept { page_->released.store(true); }

}  // namespace ddprun::os
