#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "console/console.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"
#include "probes/launch_facts.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

// Status of the workers here for --status, as far as it costs nothing to know.

status::NodeStatus WorkerGroup::status() const {
  status::NodeStatus status{node_->host, {}, {}, node_->network.own.switches, node_->network.own.domain};
  const std::vector<std::optional<Milliseconds>> ages = outputs_.ages();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    status::WorkerStatus& worker = status.workers.emplace_back();
    worker.rank = plan_->assignment.workers[i].rank.value;
    worker.local_rank = plan_->assignment.workers[i].local_rank.value;
    worker.pid = workers_[i]->ended ? 0 : pid(i);
    worker.gpu = plan_->planned[i].device;
    if (const auto touched = os::last_written(progress_file(i)))
      worker.progress_age = std::max(Milliseconds{os::unix_milliseconds() - *touched}, Milliseconds{0});
    if (standbys_)
      worker.standby = standbys_->is_ready(i) ? "ready" : standbys_->pid(i) != 0 ? "importing" : "none";
    if (workers_[i]->status && workers_[i]->status->kind == ExitStatus::Kind::exited)
      worker.exit_code = workers_[i]->status->value;
    worker.output_age = ages[i];
  }
  return status;
}

inspection::WorkerPlaces WorkerGroup::places() const {
  inspection::WorkerPlaces places;
  places.attempt = plan_->assignment.attempt.value;
  places.doors.ras_port = ras_port_;
  if (!workers_.empty()) places.dump = outputs_.logs().stack_dump(plan_->assignment.workers.front());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    places.doors.workers.push_back(inspect_prefix(i));
    if (std::string record = outputs_.logs().stack_record(plan_->assignment.workers[i]); !record.empty())
      places.records.push_back(std::move(record));
    auto& addresses = places.gpus.emplace_back();
    for (const int gpu : plan_->planned[i].gpus)
      addresses.push_back(snapshot_.host.gpus.at(static_cast<std::size_t>(gpu)).pci_address);
  }
  return places;
}

const facts::PythonFacts& WorkerGroup::python() const {
  if (!python_) python_ = probes::python_of_workers(*node_, snapshot_);
  return *python_;
}

// Returns "Python 3.11, torch 2.13.0, NVIDIA H100 80GB HBM3".
std::string WorkerGroup::describe_environment(std::size_t worker) const {
  std::vector<std::string> facts;
  if (!python().version.empty()) facts.push_back("Python " + python().version);
  if (!python().torch.empty()) facts.push_back("torch " + python().torch);
  for (const int gpu : plan_->planned[worker].gpus) {
    const std::string& model = snapshot_.host.gpus.at(static_cast<std::size_t>(gpu)).model;
    if (!model.empty() && std::find(facts.begin(), facts.end(), model) == facts.end()) facts.push_back(model);
  }
  return join(facts, ", ");
}

bool WorkerGroup::has_loaded(std::string_view name) const {
  std::vector<int> leaders;
  for (const auto& worker : workers_) {
    if (worker->child && !worker->ended) leaders.push_back(worker->child->pid());
  }
  const os::ProcessTable family = os::find_families(os::capture_processes(), leaders);
  return std::any_of(family.begin(), family.end(),
                     [&](const os::ProcessEntry& process) { return os::has_mapped(process.pid, name); });
}

// Results of the workers' bindings in the kernel: refusals, and the lines of --show-binding.
//
// A child binds itself a moment after the fork, so there is nothing to look at before it says that it has.
// With --show-binding it then waits for its line to be written: the mask read back is the one that its
// program begins with, also if that ends at once.

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
