#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "agent/driver.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/signal_watch.hpp"
#include "lifecycle/after_success.hpp"
#include "lifecycle/signal_ledger.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/helper_child.hpp"
#include "os/terminal/terminal.hpp"
#include "plan/finalise.hpp"
#include "plan/worker_env.hpp"
#include "probes/launch_facts.hpp"
#include "rendezvous/missing_agents.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

// Actions of the agent's state machine: messages to the coordinator, the stop of the workers, the agent's
// end.

namespace {

constexpr Milliseconds k_parting_limit{30000};  // a coordinator whose output has no reader takes longer

}  // namespace

void Driver::carry_out(const lifecycle::AgentLifecycle::Actions& actions) {
  for (const lifecycle::LifeAction& action : actions)
    std::visit([this](const auto& each) { carry_out(each); }, action);
}

void Driver::carry_out(const lifecycle::life::SayError& action) {
  console::say_error(action.what, action.hint);
}

void Driver::carry_out(const lifecycle::life::Say& action) { console::say(action.what); }

void Driver::carry_out(const lifecycle::life::TellFirstStop&) { tell_early_kill(); }

void Driver::carry_out(const lifecycle::life::StopWorkers& action) {
  warned_workers_.end();
  endings_.note_stop_in_sight(os::now());
  if (action.of_job) endings_.note_stop(os::now());
  supervisor_.note_stop(
      action.signal, action.hurry, os::now(),
      action.undecided ? lifecycle::Supervisor::Delivery::undecided : lifecycle::Supervisor::Delivery::by_us);
  if (action.of_job) decide_soon();
}

void Driver::carry_out(const lifecycle::life::Judge& action) {
  signals_.judge(action.signal, action.way, action.maybe_tree);
}

void Driver::carry_out(const lifecycle::life::SendStopRequest& action) {
  link_.send(rendezvous::StopRequest{action.signal, plans_.node->host, action.whole_tree,
                                     stop_sender_.value_or(""), action.again});
  node_look_.give_up();
}

void Driver::carry_out(const lifecycle::life::SendStuck& action) {
  link_.send_if_linked(rendezvous::Stuck{action.attempt});
}

void Driver::carry_out(const lifecycle::life::SendStopped& action) {
  std::vector<report::KilledRanks> killed = endings_.killed_ranks();
  for (report::KilledRanks& each : killed) each.host = plans_.node->host;
  if (killed.size() > rendezvous::k_max_further_failures) killed.resize(rendezvous::k_max_further_failures);
  rendezvous::Stopped stopped{
      action.attempt,           endings_.further(told_failure_), endings_.stopped_ranks(),
      workers_.made_progress(), endings_.finished_ranks(),       endings_.finished_ago(),
      std::move(killed)};
  checkpoints_.when_settled([this, stopped = std::move(stopped)] {
    node_look_.when_known([this, stopped](const rendezvous::Unfit& unfit) {
      rendezvous::Stopped message = stopped;
      message.unfit = unfit;
      message.checkpoints = checkpoints_.held();
      link_.send(std::move(message));
    });
  });
}

void Driver::handle(const rendezvous::Look& look) {
  node_look_.begin({look.attempt, 0, false, /*again=*/true}, /*failed_here=*/false);
  node_look_.when_known([this, attempt = look.attempt](const rendezvous::Unfit& unfit) {
    link_.send_if_linked(rendezvous::Looked{attempt, unfit});
  });
}

// Writes output here again: the process that read it on another host has exited.
void Driver::carry_out(const lifecycle::life::TakeOutputBack&) {
  if (output_link_.restore()) workers_.outputs().pumps().reopen();
}

void Driver::carry_out(const lifecycle::life::AbandonWorkers&) { workers_.abandon(); }

void Driver::carry_out(const lifecycle::life::EndGathered& action) {
  workers_.outputs().pumps().end_silent(action.patience, action.in_any_case);
}

void Driver::carry_out(const lifecycle::life::ReadOutput&) {
  workers_.outputs().when_read([this] { carry_out(life_.on_output_read()); });
}

// Waits for a reader (less, ^S) as long as it takes where there is no limit.
void Driver::carry_out(const lifecycle::life::WriteOutput& action) {
  workers_.outputs().when_drained(action.limit, [this, limit = action.limit] {
    files_.when_written(limit, [this] { carry_out(life_.on_output_written()); });
  });
}

// Posted, because rejoin() destroys the link whose callback we are in.
void Driver::carry_out(const lifecycle::life::Rejoin&) {
  node_look_.end();
  checkpoints_.when_settled([this] { boost::asio::post(context_, [this] { link_.rejoin(); }); });
}

void Driver::carry_out(const lifecycle::life::GiveUpOutput&) {
  output_link_.give_up();
  parting_timer_.cancel();
}

void Driver::carry_out(const lifecycle::life::Leave& action) {
  for (const std::string& loss : workers_.outputs().losses()) {
    console::say_error(loss);
    life_.note_loss();
  }
  standbys_.end();
  if (supervisor_.idle()) workers_.dismiss_reaper();  // workers that are left get a last try otherwise
  job_end_.end();
  grace_.end();
  if (!ended_badly_.empty()) on_failure_.job_ended(ended_badly_);
  requeue_.ask(plans_, began_, files_);
  files_.when_written(action.limit, [this, limit = action.limit] { part(limit); });
}

// The others may end now.
void Driver::part(std::optional<Milliseconds> limit) {
  link_.finish();
  end_warm_up();
  status_.end();
  restarts_.end();
  profiles_.end();
  store_.close();
  const bool waits = life_.lets_coordinator_end_first();
  if (!waits) signals_.leave();
  output_link_.finish(context_, limit, [this, waits] {
    front_end_.tell_end({life_.exit_code(), true, link_.coordinates()},
                        [this, waits] { waits ? end_after_coordinator() : context_.stop(); });
  });
}

void Driver::end_after_coordinator() {
  const bool waits = !coordinator_ended_ && life_.lets_coordinator_end_first();  // without a request to stop
  parting_timer_.expires_after(waits ? k_parting_limit : Milliseconds{0});
  parting_timer_.async_wait([this](const boost::system::error_code&) {
    signals_.leave();
    context_.stop();
  });
}

// The end of a job that a scheduler brings: the warning before it, and what the report says of it.

JobEndWatch::Hooks Driver::job_end_hooks() {
  JobEndWatch::Hooks hooks;
  hooks.know = [this](TimePoint end) {
    if (auto* const here = link_.coordinator()) here->note_job_end(end);
  };
  hooks.warn = [this](int signal) {
    if (auto* const here = link_.coordinator()) here->warn(signal);
  };
  return hooks;
}

void Driver::handle(const rendezvous::AliveQuestion& question) {
  supervisor_.extend_grace(question.grace);
  arm_timer();
}

// A preempted job may have longer than its workers are given otherwise. Once, by the coordinator for all.
void Driver::ask_for_grace() {
  if (!link_.coordinates()) return;
  probes::GraceSearch::Hooks hooks;
  hooks.found = [this](Milliseconds grace) {
    console::say(fmt::format("Slurm leaves job {} more time: the workers have {} to stop",
                             plans_.node->allocation.job_id.value, describe_duration(grace)));
    if (auto* const here = link_.coordinator()) here->note_grace(grace);
    supervisor_.extend_grace(grace);
    arm_timer();
  };
  grace_.begin(plans_.node->allocation, plans_.node->options.shutdown_timeout, std::move(hooks));
}

void Driver::handle(const rendezvous::Warn& warn) {
  if (warn.attempt != supervisor_.attempt() || supervisor_.idle() || life_.ending()) return;
  warned_workers_.begin(warn.signal);
}

// Adds which ranks were running when a signal came, if it was the scheduler's or some had ended before.
void Driver::explain_end(rendezvous::Finish& finish) const {
  report::Cause& cause = finish.cause;
  if (cause.kind != report::Cause::Kind::stopped_by_signal) return;
  const bool unexplained = cause.detail.empty();
  if (unexplained) cause.detail = probes::ask_why_job_ends(plans_.node->allocation);
  const int world_size = plans_.attempt->assignment.world_size;
  const bool by_scheduler = unexplained && !cause.detail.empty();
  const bool some_had_ended = finish.victims.size() < static_cast<std::size_t>(world_size);
  const bool known = !finish.victims.empty() && world_size > 0 && !plans_.node->options.several_programs;
  if (known && (by_scheduler || some_had_ended))
    finish.remarks.push_back(report::describe_running(finish.victims, world_size));
}

// Signals to an agent, from outside and from the ddprun that started it: some stop the job, the others go on
// to the workers.

void Driver::watch_signals() {
  event_loop::SignalWatch::Hooks hooks;
  hooks.on_signal = [this](const os::SignalEvent& event) { on_signal(event); };
  hooks.on_verdict = [this](const lifecycle::SignalLedger::Verdict& verdict) { on_verdict(verdict); };
  hooks.on_done = [this] { decide(); };
  signals_.start(std::move(hooks));
}

// Reports whether this is one of several programs of a job: the process above starts and stops them, and says
// why.
bool Driver::is_program() const { return facts::find_variable(snapshot_, "DDPRUN_PROGRAM").has_value(); }

void Driver::on_signal(const os::SignalEvent& event) {
  if (event.number == SIGHUP && workers_.is_hung_up_with_worker()) signals_.note_reached(SIGHUP);
  if (event.number == SIGCHLD) {
    workers_.answer_held_signals();
    workers_.look_for_ends();
    workers_.look_for_stops();
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
  } else if (event_loop::is_stop_signal(event.number, plans_.node->options)) {
    if (!stop_sender_ && event.number == SIGINT && event.is_from_key())
      console::say(report::describe_wait_after_key(plans_.node->options.shutdown_timeout.value));
    if (!stop_sender_) ask_for_grace();
    if (!stop_sender_) stop_sender_ = os::describe_sender(event);
    const bool by_person = event_loop::is_from_person(event, plans_.node->allocation.scheduler.value);
    if (is_program() && (event.from_above || !by_person)) life_.note_explained();  // the launch says it
    carry_out(life_.on_stop_signal(event.number, lifecycle::SignalWay::own, event.from_above, by_person,
                                   os::now()));
  } else if (event.number == SIGTSTP && is_program()) {
    workers_.stop_all();  // this process is there for the SIGCONT
  } else if (event.number == SIGTSTP && os::can_be_continued()) {
    stop_at_key();
  } else if (os::is_passed_on(event)) {
    signals_.judge(event.number, lifecycle::SignalWay::own, event.from_above);
  }
}

void Driver::on_told_signal(const rendezvous::lifeline::Signal& signal) {
  const std::vector<int> watched = event_loop::watched_signals_of(plans_.node->options);
  if (std::find(watched.begin(), watched.end(), signal.number) == watched.end()) return;
  if (signal.explained) life_.note_explained();
  if (event_loop::is_stop_signal(signal.number, plans_.node->options)) {
    carry_out(life_.on_stop_signal(signal.number, lifecycle::SignalWay::front_end, signal.whole_tree,
                                   signal.hurry, os::now()));
  } else if (signal.number != SIGCHLD) {
    signals_.judge(signal.number, lifecycle::SignalWay::front_end, signal.whole_tree);
  }
  decide();
}

// Stops the workers at ^Z. Their groups are orphaned, and there the kernel drops SIGTSTP, so they get
// SIGSTOP. SIGCONT, which continues us, is passed on to them.
void Driver::stop_at_key() {
  workers_.stop_all();
  os::stop_own_group();
}

// Reports at once that the scheduler kills early: no process is left to report it afterwards.
void Driver::tell_early_kill() const {
  if (plans_.node->rendezvous.agent.value != 0) return;
  console::say_notice(plan::find_early_kill(snapshot_, plans_.node->options.shutdown_timeout.value));
}

void Driver::on_verdict(const lifecycle::SignalLedger::Verdict& verdict) {
  if (verdict.number == SIGCONT) {
    workers_.note_continued();
    if (verdict.pass_on) workers_.continue_all();
    return;
  }
  supervisor_.note_delivery(verdict.number, verdict.pass_on);
  carry_out(life_.on_verdict(verdict));
}

// Start of an attempt, once everything that the workers need is there.

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
