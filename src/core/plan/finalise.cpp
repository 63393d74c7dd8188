#include "plan/finalise.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/detection/left_over.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "output/log_layout.hpp"
#include "output/output_options.hpp"
#include "plan/bind_workers.hpp"
#include "plan/gpu_count.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/propose.hpp"
#include "plan/worker_command.hpp"
#include "plan/worker_env.hpp"
#include "plan/world_plan.hpp"

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

namespace {

std::string store_host(const NodeProposal& node) {
  if (node.rendezvous.agents == 1) return node.host;
  const std::string& first = node.rendezvous.peers.front();
  return node.options.store == options::StoreHost::worker || first.empty() ? "rank 0's host" : first;
}

// Reports whether the number of nodes and their order show only when the agents meet.
bool is_node_count_open(const NodeProposal& node) { return node.allocation.hosts.value.empty(); }

bool is_node_open(const NodeProposal& node) {
  return !node.allocation.node_index.value &&
         node.allocation.style.value == allocation::LaunchStyle::agent_per_task &&
         node.allocation.hosts.value.size() != 1;
}

bool is_rank(const std::string& name) {
  return name == "RANK" || name == "ROLE_RANK" || name == "GROUP_RANK";
}

// Placeholders for values that the start decides.
constexpr const char* k_folder = "(a temporary folder)";
constexpr const char* k_log_folder = "(the attempt's folder of --logs)";
constexpr const char* k_ras_address = "(a free port of 127.0.0.1)";

bool is_open(const std::string& value) {
  return value.starts_with(k_folder) || value.starts_with(k_log_folder) || value == k_ras_address;
}

// Describes a value that only the start decides; empty for one that the plan knows.
std::string describe_open(const VariableChange& change, const NodeProposal& node) {
  if (change.name == "MASTER_ADDR" && change.value == "") {
    return fmt::format("(an address of {})", store_host(node));
  }
  if (change.name == "MASTER_PORT" && change.value == "0") {
    return fmt::format("(a free port of {})", store_host(node));
  }
  if (is_rank(change.name) && is_spare(node.rendezvous, node.options)) return "(that of a lost node)";
  if (change.name == "GROUP_RANK" && is_node_open(node)) return "(order of the lowest ranks)";
  if (change.name == "GROUP_WORLD_SIZE" && is_node_count_open(node)) return "(set at the rendezvous)";
  if (change.name == "TORCHELASTIC_ERROR_FILE" || change.name == "DDPRUN_PROGRESS_FILE")
    return "(a temporary file)";
  if (change.value && is_open(*change.value)) return *change.value;
  if (change.name == "DDPRUN_LAUNCH_ID" || change.name == "DDPRUN_AGENT_ID") return "(a random number)";
  if (change.name == allocation::k_worker_list_variable) return "(the names of these variables)";
  if (change.origin == k_stage_origin || change.origin == k_checkpoint_origin)
    return change.value.value_or("");  // but for the hash, the user and the job
  if (change.open) return "(interface to other nodes)";
  return {};
}

// Returns the change under the name that it has inside the container.
VariableChange without_prefix(VariableChange change, const NodeProposal& node) {
  const std::string& prefix = node.options.container.prefix;
  if (!prefix.empty() && change.name.starts_with(prefix)) change.name.erase(0, prefix.size());
  return change;
}

}  // namespace

Assignment make_expected_assignment(const NodeProposal& node) {
  Assignment assignment;
  assignment.world_size = node.world_size.value;
  assignment.local_world_size = node.local_world_size;
  // With one agent on each node their order is that of the launcher's ranks.
  const bool per_node = node.allocation.style.value == allocation::LaunchStyle::agent_per_node;
  assignment.node = allocation::node_rank_of(node.allocation)
                        .value.value_or(NodeIndex{per_node ? node.allocation.task_rank.value : 0});
  const int hosts = static_cast<int>(node.allocation.hosts.value.size());
  assignment.node_count = std::max(1, hosts - node.options.spares.value);
  const bool per_task = node.allocation.style.value == allocation::LaunchStyle::agent_per_task;
  assignment.several_workers = !per_task && node.workers.value > 1;
  assignment.workers_of_nodes =
      assignment.node_count == 1 ? fmt::format("{}", assignment.local_world_size)
                                 : fmt::format("{}(x{})", assignment.local_world_size, assignment.node_count);
  if (const std::vector<int> workers = workers_of_nodes(node); !workers.empty())
    assignment.workers_of_nodes = write_counts(workers);
  assignment.run_id = node.run_id.value;
  const bool solo = node.rendezvous.agents == 1;
  if (solo) assignment.master_address = node.solo_address.value;
  // The rendezvous is on the port that was asked for, and the store shares it where ddprun hosts both.
  if (solo || node.options.store == options::StoreHost::agent)
    assignment.master_port = node.store_port.value_or(0);
  for (const OfferedWorker& worker : node.offered) {
    assignment.workers.push_back(
        {worker.expected_rank, worker.local_rank, worker.expected_rank.value, assignment.world_size});
  }
  return assignment;
}

std::vector<ExpectedVariable> expected_variables(const LaunchPlan& plan,
                                                 const facts::Environment& environment, std::size_t worker) {
  const NodeProposal& node = *plan.node;
  WorkerContext context;
  context.worker = worker;
  const bool several = plan.assignment.node_count > 1 || is_node_open(node) || is_node_count_open(node);
  if (several) context.interface = "open";
  if (is_inspected(node.options, plan.planned.at(worker).command, environment)) {
    context.inspection_folder = k_folder;
    context.inspect_prefix = fmt::format("{}/inspect_{}", k_folder, worker);
  }
  context.ras_address = k_ras_address;
  if (!node.options.output.logs.value.empty()) context.flight_record = fmt::format("{}/fr_", k_log_folder);
  std::vector<ExpectedVariable> variables;
  for (VariableChange& change : make_worker_changes(plan, environment, context)) {
    std::string open = change.value ? describe_open(without_prefix(change, node), node) : "";
    if (!open.empty()) change.value.reset();
    variables.push_back({std::move(change), std::move(open)});
  }
  return variables;
}

namespace {

std::string run_folder(const LaunchPlan& plan) {
  const output::OutputOptions& options = plan.node->options.output;
  const std::string name = output::folder_name(plan.node->run_id.value);
  if (output::layout_of(options) == output::LogLayout::ranks) return options.logs.value + "/" + name;
  const std::string base =
      options.log_dir.value.empty() ? "$TMPDIR/torchelastic_XXXXXX" : options.log_dir.value;
  return fmt::format("{}/{}_XXXXXX", base, name);
}

}  // namespace

OutputWay output_way(const LaunchPlan& plan, std::size_t worker, output::Stream stream) {
  const output::OutputOptions& options = plan.node->options.output;
  const PlannedWorker& planned = plan.planned[worker];
  const output::StreamRoute route = output::route_stream(options, planned.local_rank, planned.rank, stream);
  OutputWay way;
  way.console = route.console;
  way.gathered = route.console && options.gather && plan.node->rendezvous.agents > 1;
  if (route.file) {
    const output::LogLayout layout = output::layout_of(options);
    way.file = fmt::format("{}/{}/{}", run_folder(plan), output::attempt_folder_name(layout, Attempt{0}),
                           output::log_file_name(layout, planned.local_rank, planned.rank, stream));
    way.by_worker = !route.console && !output::writes_for_workers(options);
  }
  const output::LabelFacts facts{planned.rank, planned.local_rank, Attempt{0}, plan.node->host,
                                 plan.node->options.role.value};
  const int hosts = plan.node->rendezvous.agents > 1 ? 2 : 1;
  if (route.console) way.label = output::label_of(options, route, facts, hosts, false).at(Milliseconds{0});
  return way;
}

bool directs_output(const output::OutputOptions& options) {
  return output::wants_files(options) || options.label || options.gather || !options.ranks.all ||
         !options.local_ranks.empty();
}

std::string describe(const OutputWay& way) {
  std::string text = way.gathered ? "console of the coordinator" : way.console ? "console" : "";
  if (!way.label.empty()) text += fmt::format(", as '{}...'", way.label);
  if (way.file.empty()) return text.empty() ? "not shown" : text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : "; ", way.file);
}

std::optional<allocation::Notice> find_unseen_output(const LaunchPlan& plan) {
  const options::Options& options = plan.node->options;
  const auto& [all, ranges] = options.output.ranks;
  const int world = plan.assignment.world_size;
  const int here = plan.assignment.local_world_size;
  const bool fixed = !options::outlives_nodes(options);
  const auto unseen = [](const char* option, const char* noun, int count) {
    return allocation::Notice{
        fmt::format("{} chooses none of the {} {}: no output is shown", option, count, noun),
        fmt::format("give a number from 0 to {}, or leave out {}", count - 1, option)};
  };
  const bool no_rank = !all && !ranges.empty() &&
                       std::ranges::all_of(ranges, [&](const auto& range) { return range.first >= world; });
  if (fixed && world > 0 && no_rank) return unseen("--ranks", world == 1 ? "rank" : "ranks", world);
  const std::vector<int>& local = options.output.local_ranks;
  const bool no_local = !local.empty() && std::ranges::all_of(local, [&](int rank) { return rank >= here; });
  if (here > 0 && no_local)
    return unseen("--local-ranks-filter", here == 1 ? "local rank" : "local ranks", here);
  return std::nullopt;
}

std::vector<allocation::Notice> notices_of(const LaunchPlan& plan) {
  std::vector<allocation::Notice> notices = plan.node->notices;
  notices.insert(notices.end(), plan.notices.begin(), plan.notices.end());
  return notices;
}

}  // namespace ddprun::plan
