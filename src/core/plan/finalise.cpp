#include "plan/finalise.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/bind_workers.hpp"
#include "plan/device_sharing.hpp"
#include "plan/follow_binding.hpp"
#include "plan/open_mpi_settings.hpp"
#include "plan/output_plan.hpp"
#include "plan/propose.hpp"
#include "plan/worker_command.hpp"

namespace ddprun::plan {

namespace {

DeviceView view_as_offered(const NodeProposal& node, const OfferedWorker& offered) {
  const Sourced<int>& each = node.options.gpus_per_worker;
  const bool several = each.value > 1;
  DeviceView view{node.virtual_local_rank.value, {}, node.virtual_local_rank.origin};
  if (several && !view.virtual_rank) view.origin = each.origin;
  if (several || view.virtual_rank) view.entries = offered.device;
  return view;
}

// Reports whether each worker gets a device number of its own, as torchrun gives it: there is no GPU here,
// and no variable that hides any.
bool numbers_devices(const NodeProposal& node, const facts::Snapshot& snapshot) {
  return node.options.virtual_local_rank && node.gpus.empty() &&
         !facts::find_variable(snapshot, node.device_variable);
}

void add_workers(LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const NodeProposal& node = *plan.node;
  const Assignment& assignment = plan.assignment;
  const std::vector<std::string> shared =
      node.own_device ? find_shared_devices(node.gpus, assignment.local_peers) : std::vector<std::string>{};
  const bool sees_all = static_cast<int>(shared.size()) == assignment.local_world_size;
  for (std::size_t i = 0; i < node.offered.size(); ++i) {
    const OfferedWorker& offered = node.offered[i];
    const RankAssignment& assigned = assignment.workers[i];
    PlannedWorker worker{assigned.rank, assigned.local_rank, offered.command, offered.device, offered.gpus};
    worker.view = sees_all ? DeviceView{false, join(shared, ","), "the GPUs of all tasks on this host"}
                           : view_as_offered(node, offered);
    if (numbers_devices(node, snapshot)) worker.view.entries = std::to_string(assigned.local_rank.value);
    plan.planned.push_back(std::move(worker));
  }
}

using SharedProposal = std::shared_ptr<const NodeProposal>;

// Returns the proposal that fits the assignment: the coordinator may know more of the launch than this agent.
SharedProposal follow_assignment(SharedProposal node, const Assignment& assignment,
                                 const facts::Snapshot& snapshot) {
  const bool as_task =
      assignment.agent_per_task && node->allocation.style.value != allocation::LaunchStyle::agent_per_task;
  if (as_task) return std::make_shared<const NodeProposal>(propose_as_task(*node, snapshot));
  const bool other_tasks = node->for_tasks && assignment.workers.size() != node->offered.size();
  if (!other_tasks) return node;
  const int tasks = static_cast<int>(assignment.workers.size());
  return std::make_shared<const NodeProposal>(propose_for_tasks(*node, tasks, snapshot));
}

}  // namespace

LaunchPlan finalise(std::shared_ptr<const NodeProposal> node, Assignment assignment,
                    const facts::Snapshot& snapshot) {
  LaunchPlan plan;
  plan.node = follow_assignment(std::move(node), assignment, snapshot);
  plan.assignment = std::move(assignment);
  if (plan.assignment.workers.size() != plan.node->offered.size()) {
    throw Error(fmt::format("{} was asked to start {} workers but announced {}", plan.node->host,
                            plan.assignment.workers.size(), plan.node->offered.size()));
  }
  plan.staged = expect_staged(plan.node->options, snapshot);
  const options::CheckpointOptions& checkpoint = plan.node->options.checkpoint;
  const std::string folder = checkpoint.folder + "/ddprun-UID/checkpoints-JOB-AGENT";
  if (checkpoint.memory) plan.checkpoints = {folder, folder + "/.socket", {}};
  add_workers(plan, snapshot);
  bind_workers(plan, snapshot);
  follow_binding(plan, snapshot);
  for (const auto& notice : {find_many_threads(plan, snapshot), find_bound_agent(*plan.node, snapshot),
                             find_no_card(plan, snapshot), find_unseen_output(plan)}) {
    if (notice) plan.notices.push_back(*notice);
  }
  return plan;
}

}  // namespace ddprun::plan
