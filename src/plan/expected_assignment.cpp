#include "ddprun/plan/expected_assignment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/allocation/left_over.hpp"
#include "ddprun/plan/worker_env.hpp"

namespace ddprun {

namespace {

std::string store_host(const NodePlan& plan) {
  if (plan.rendezvous.agents == 1) return plan.host;
  const std::string& first = plan.rendezvous.peers.front();
  return plan.options.store == StoreHost::worker || first.empty() ? "rank 0's host" : first;
}

// How many nodes there are, and their order, may show only when the agents meet.
bool is_node_count_open(const NodePlan& plan) { return plan.allocation.hosts.value.empty(); }

bool is_node_open(const NodePlan& plan) {
  return !plan.allocation.node_index.value && plan.allocation.style.value == LaunchStyle::agent_per_task &&
         plan.allocation.hosts.value.size() != 1;
}

// Words for what only the start decides; empty for what the plan knows.
std::string describe_open(const VariableChange& change, const NodePlan& plan) {
  if (change.name == "MASTER_ADDR" && change.value == "") {
    return fmt::format("(an address of {})", store_host(plan));
  }
  if (change.name == "MASTER_PORT" && change.value == "0") {
    return fmt::format("(a free port of {})", store_host(plan));
  }
  if (change.name == "GROUP_RANK" && is_node_open(plan)) return "(order of the lowest ranks)";
  if (change.name == "GROUP_WORLD_SIZE" && is_node_count_open(plan)) return "(set at the rendezvous)";
  if (change.name == "TORCHELASTIC_ERROR_FILE") return "(a temporary file)";
  if (change.name == "DDPRUN_LAUNCH_ID" || change.name == "DDPRUN_AGENT_ID") return "(a random number)";
  if (change.name == k_worker_list_variable) return "(the names of these variables)";
  if (change.open) return "(interface to other nodes)";
  return {};
}

}  // namespace

Assignment make_expected_assignment(const NodePlan& plan) {
  Assignment assignment;
  assignment.world_size = plan.world_size.value;
  assignment.local_world_size = plan.local_world_size;
  // With one agent on each node their order is that of the launcher's ranks.
  const bool per_node = plan.allocation.style.value == LaunchStyle::agent_per_node;
  assignment.node =
      plan.allocation.node_index.value.value_or(NodeIndex{per_node ? plan.allocation.task_rank.value : 0});
  assignment.node_count = std::max<int>(1, static_cast<int>(plan.allocation.hosts.value.size()));
  const bool per_task = plan.allocation.style.value == LaunchStyle::agent_per_task;
  assignment.several_workers = !per_task && plan.workers.value > 1;
  assignment.workers_of_nodes =
      assignment.node_count == 1 ? fmt::format("{}", assignment.local_world_size)
                                 : fmt::format("{}(x{})", assignment.local_world_size, assignment.node_count);
  assignment.run_id = plan.run_id.value;
  const bool solo = plan.rendezvous.agents == 1;
  if (solo) assignment.master_address = plan.solo_address.value;
  // The rendezvous is on the port that was asked for, and the store shares it where ddprun hosts both.
  if (solo || plan.options.store == StoreHost::agent) assignment.master_port = plan.store_port.value_or(0);
  for (const PlannedWorker& worker : plan.planned) {
    assignment.workers.push_back({worker.rank, worker.local_rank, worker.rank.value, assignment.world_size});
  }
  return assignment;
}

std::vector<ExpectedVariable> expected_variables(const NodePlan& plan, const Assignment& assignment,
                                                 const Environment& environment, std::size_t worker) {
  WorkerContext context;
  context.worker = worker;
  const bool several = assignment.node_count > 1 || is_node_open(plan) || is_node_count_open(plan);
  if (several) context.interface = "open";
  std::vector<ExpectedVariable> variables;
  for (VariableChange& change : make_worker_changes(plan, assignment, environment, context)) {
    std::string open = change.value ? describe_open(change, plan) : "";
    if (!open.empty()) change.value.reset();
    variables.push_back({std::move(change), std::move(open)});
  }
  return variables;
}

}  // namespace ddprun
