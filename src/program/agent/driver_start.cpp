// Start of an attempt, once everything that the workers need is there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/driver.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "lifecycle/store_use.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/helper_child.hpp"
#include "plan/finalise.hpp"
#include "rendezvous/waiting_text.hpp"

namespace ddprun::agent {

void Driver::handle(const rendezvous::Start& start) {
  if (!stage_.is_settled()) {
    held_start_ = start;
    return stage_.begin(start.stage_sources);
  }
  if (!life_.accepts_start(workers_state())) return;
  if (!begin_checkpoints(start)) return;
  try {
    plan::LaunchPlan plan = plan::finalise(plans_.node, start.assignment, snapshot_);
    plan.staged = stage_.mappings();
    plan.checkpoints = {checkpoints_.folder(), checkpoints_.socket(), {}};
    if (start.restore) plan.checkpoints.step = start.restore->step;
    plans_.attempt = std::make_shared<const plan::LaunchPlan>(std::move(plan));
  } catch (const Error& error) {
    return on_lost(error.what(), error.hint());
  }
  const auto before = std::exchange(plans_.node, plans_.attempt->node);
  if (before->allocation.style.value != plans_.node->allocation.style.value) tell_task_style();
  life_.note_start();
  end_warm_up();
  say_new_notices();
  step_aside();
  told_failure_.reset();
  if (const auto ready = facts::find_variable(snapshot_, "DDPRUN_READY_FILE")) ::unlink(ready->c_str());
  traced_ = false;
  events_.begin_attempt();
  endings_.begin(plans_.attempt);
  supervisor_.note_start(start.assignment);
  workers_.begin_attempt(plans_.attempt, proven_interface(start.assignment),
                         local_store_.begin_attempt(start.assignment));
  hangs_.begin_attempt();
  traces_.begin_attempt(start.assignment, plans_.node->options.hang.slow);
  standbys_.begin_attempt();
  tell_start(start.assignment);
  warned_workers_.end();
  if (link_.coordinates()) job_end_.begin();
  decide();
}

void Driver::on_staged() {
  standbys_.note_staged(stage_.mappings());
  start_held();
}

void Driver::start_held() {
  if (const auto start = std::exchange(held_start_, std::nullopt)) handle(*start);
}

// Removes what is newer than the step that the attempt starts from. False: this host's workers are held back
// until their parts of it have come from other nodes.
bool Driver::begin_checkpoints(const rendezvous::Start& start) {
  const plan::Assignment& assignment = start.assignment;
  const bool begun = checkpoints_.begin_attempt(
      {assignment.attempt.value, assignment.world_size, start.restore, plan::ranks_of(assignment)},
      [this] { start_held(); });
  if (!begun) held_start_ = start;
  return begun;
}

checkpoints::CheckpointKeeper::Hooks Driver::checkpoint_hooks() {
  return {[this](const checkpoint::Held& held) { link_.send_if_linked(rendezvous::CheckpointsHeld{held}); },
          [this](const std::string& what, const std::string& hint) {
            console::say_notice(fmt::format("on {}: {}", plans_.node->host, what), hint);
          }};
}

// Shows notices that are new in this attempt: the expected plan may have been wrong about other agents of
// this host.
void Driver::say_new_notices() {
  for (const allocation::Notice& notice : plans_.attempt->notices) {
    if (std::find(said_.begin(), said_.end(), notice) != said_.end()) continue;
    plans_.node->rendezvous.agent.value == 0 ? console::say_notice(notice) : console::say_detail(notice.what);
    said_.push_back(notice);
  }
}

// Moves this thread to spare CPUs: its loop pumps output and serves store and rendezvous.
void Driver::step_aside() {
  if (plans_.attempt->binding.spare.empty() || std::exchange(stepped_aside_, true)) return;
  const bool moved = os::keep_to_cpus(plans_.attempt->binding.spare);
  console::say_detail(
      fmt::format("ddprun itself {} {} on {}", moved ? "is bound to" : "cannot be bound to",
                  facts::describe({plans_.attempt->binding.spare, {}, facts::MemoryPolicy::untouched}),
                  plans_.node->host));
}

// Loads the workers' Python from disk while this node waits, so that the others need not wait for it later.
void Driver::handle(const rendezvous::Standby& standby) {
  life_.note_standby();
  stage_.begin(standby.stage_sources);
  console::say_detail("this node waits to replace a lost node");
  const bool is_cold = plans_.node->options.stage.paths.empty() &&
                       plans_.attempt->assignment.workers.empty() && !warm_up_ &&
                       !plans_.node->offered.empty();
  if (!is_cold || !lifecycle::starts_python(plans_.node->offered.front().command)) return;
  try {
    warm_up_ = os::start_warm_up(plans_.node->offered.front().command.front());
    workers_.spare(warm_up_->pid());
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
}

void Driver::end_warm_up() {
  if (!warm_up_) return;
  workers_.spare_no_more(warm_up_->pid());
  warm_up_->end();
}

void Driver::tell_start(const plan::Assignment& assignment) const {
  const std::string interface = proven_interface(assignment);
  console::say_detail(fmt::format("attempt {}: {} on {}, {}:{}; {} here{}", assignment.attempt.value,
                                  count_of(assignment.world_size, "worker"),
                                  count_of(assignment.node_count, "node"), assignment.master_address,
                                  assignment.master_port,
                                  rendezvous::describe_ranks(plan::ranks_of(assignment)),
                                  interface.empty() ? "" : ", interface " + interface));
  const plan::NodeProposal& node = *plans_.node;
  const std::string grace = probes::GraceSearch::describe(node.allocation, node.options.shutdown_timeout);
  if (!grace.empty() && node.rendezvous.agent.value == 0) console::say_detail(grace);
}

}  // namespace ddprun::agent
