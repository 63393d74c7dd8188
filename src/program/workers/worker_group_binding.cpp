// Results of the workers' bindings in the kernel: refusals, and the lines of --show-binding.
//
// A child binds itself a moment after the fork, so there is nothing to look at before it says that it has.
// With --show-binding it then waits for its line to be written: the mask read back is the one that its
// program begins with, also if that ends at once.
#include <fmt/format.h>

#include <utility>

#include "console/log.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/system_failure.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

namespace {

using boost::system::error_code;

constexpr Milliseconds k_step{1};

}  // namespace

void WorkerGroup::expect_binding(std::size_t worker) {
  if (plan_->planned[worker].binding == facts::Binding{} && !node_->options.show_binding) return;
  unseen_until_ = os::now() + os::k_longest_hold;
  unseen_.push_back(worker);
  if (unseen_.size() == 1) look_soon();
}

void WorkerGroup::look_soon() {
  net::call_after(binding_timer_, k_step, [this] { look_at_bindings(); });
}

// Looks at the bindings in the order of the ranks.
void WorkerGroup::look_at_bindings() {
  while (!unseen_.empty()) {
    const std::size_t worker = unseen_.front();
    const auto refusal = workers_[worker]->child->refusal();
    if (refusal) {
      tell_refusal(worker, *refusal);
      if (node_->options.show_binding) show_binding(worker, *refusal);
    } else if (!workers_[worker]->ended && os::now() < unseen_until_) {
      return look_soon();
    }
    unseen_.pop_front();
  }
}

void WorkerGroup::tell_refusal(std::size_t worker, const os::BindingRefusal& refusal) {
  const int rank = plan_->assignment.workers[worker].rank.value;
  const facts::Binding& binding = plan_->planned[worker].binding;
  if (refusal.cpus != 0 && !std::exchange(cpu_refusal_told_, true)) {
    console::say_notice(fmt::format("cannot bind rank {} to {} on {}: {}; it runs unbound", rank,
                                    facts::describe({binding.cpus, {}, facts::MemoryPolicy::untouched}),
                                    node_->host, os::describe_errno(refusal.cpus)),
                        "--bind none disables binding");
  }
  if (refusal.memory != 0 && !std::exchange(memory_refusal_told_, true)) {
    console::say_notice(fmt::format("cannot set the memory policy of rank {} on {}: {}; it stays unchanged",
                                    rank, node_->host, os::describe_errno(refusal.memory)),
                        "containers often forbid it; --membind none disables it");
  }
}

void WorkerGroup::show_binding(std::size_t worker, const os::BindingRefusal& refusal) {
  os::Child& child = *workers_[worker]->child;
  if (const auto binding = os::read_binding(child.pid())) {
    const bool bound = !plan_->planned[worker].binding.cpus.empty() && refusal.cpus == 0;
    const plan::RankAssignment& assigned = plan_->assignment.workers[worker];
    const std::string memory = facts::describe({{}, binding->memory_nodes, binding->policy});
    console::say(fmt::format("rank {} (local rank {}) on {}: {}{}{}{}", assigned.rank.value,
                             assigned.local_rank.value, node_->host,
                             facts::describe({binding->cpus, {}, facts::MemoryPolicy::untouched}),
                             bound ? "" : " (not bound)", memory.empty() ? "" : ", ", memory));
  }
  child.release();
}

}  // namespace ddprun::workers
