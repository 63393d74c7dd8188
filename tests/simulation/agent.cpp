#include "agent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent_sides.hpp"
#include "facts/stuck_process.hpp"
#include "rendezvous/host_limits.hpp"
#include "world.hpp"

namespace ddprun::simulation {

using namespace rendezvous;

namespace {

constexpr Milliseconds k_reaper_look = facts::StoppedProcess::k_usual_pause;  // the latest first one
constexpr Microseconds k_usual_latency{300}, k_worst_latency{100000};

lifecycle::AgentLifecycle::Limits limits() {
  lifecycle::AgentLifecycle::Limits result;
  result.others_go_on = true;
  return result;
}

std::string host_name(int place) { return fmt::format("n{}", place + 1); }

}  // namespace

Agent::Agent(World& world, int place, int number)
    : world_(world),
      place_(place),
      number_(number),
      life_(host_name(place), std::nullopt, limits()),
      supervisor_(world.launch().grace),
      next_(world.launch().host_timeout),
      timer_(world.clock()),
      turn_(world.clock()) {}

Agent::~Agent() = default;

std::string Agent::name() const { return fmt::format("{}#{}", host_name(place_), number_); }

// ---- the process

void Agent::post(std::function<void()> what) {
  const Microseconds worst = one_in(world_.random(), 300) ? k_worst_latency : k_usual_latency;
  const TimePoint when = world_.clock().now() + between(world_.random(), Microseconds{1}, worst);
  busy_until_ = std::max(busy_until_, when);
  world_.clock().at(busy_until_, [this, what = std::move(what)] { run(what); });
}

void Agent::run(const std::function<void()>& what) {
  if (!alive_) return;
  if (frozen_) return held_.push_back(what);
  what();
}

void Agent::set_timer(Timer& timer, TimePoint when, std::function<void()> what) {
  const auto counts = std::make_shared<Timer::Counts>();
  *counts = timer.set(when, [this, counts, what = std::move(what)] {
    run([counts, what] {
      if ((*counts)()) what();
    });
  });
}

void Agent::freeze() {
  if (std::exchange(frozen_, true)) return;
  frozen_at_ = world_.clock().now();
  const TimePoint held = frozen_at_ + facts::StoppedProcess::k_held_after + k_reaper_look;
  world_.clock().at(held, [this] { kill_if_forsaken(); });
}

bool Agent::held() const {
  const auto least = facts::StoppedProcess::k_held_after + k_reaper_look;
  return frozen_ && world_.clock().now() - frozen_at_ >= least;
}

void Agent::note_link_closed() {
  world_.clock().after(Microseconds{1000}, [this] { kill_if_forsaken(); });
}

// Its reaper does (os/process/reaper.hpp).
void Agent::kill_if_forsaken() {
  if (!alive_ || !held()) return;
  const bool forsaken = coordinator_ ? coordinator_->is_forsaken() : member_ && member_->is_forsaken();
  if (!forsaken) return;
  world_.tell(name(), "is killed by its reaper");
  kill();
}

void Agent::thaw() {
  if (for_good_ || !std::exchange(frozen_, false)) return;
  thawed_at_ = world_.clock().now();
  while (!held_.empty() && alive_ && !frozen_) {
    const auto what = std::move(held_.front());
    held_.pop_front();
    what();
  }
}

void Agent::drop_link(bool with_power) {
  const auto end = [with_power](Link& link, int side) { with_power ? link.vanish(side) : link.close(side); };
  if (member_ && member_->link) end(*member_->link, 0);
  if (coordinator_) {
    for (const auto& [id, link] : coordinator_->links) end(*link, 1);
  }
  for (const auto& dialling : std::exchange(backlog_, {})) {
    if (!with_power) world_.fail_dial(dialling, "connection reset by the other side");
  }
}

void Agent::kill() {
  if (!alive_) return;
  alive_ = false;
  world_.kill_all_of(number_);
  drop_link(false);
}

void Agent::lose_power() {
  if (!alive_) return;
  alive_ = false;
  world_.kill_all_of(number_);
  drop_link(true);
}

void Agent::leave() {
  world_.tell(name(), fmt::format("ends with {}: {}", life_.exit_code(), last_words_));
  exit_code_ = life_.exit_code();
  alive_ = false;
  drop_link(false);
}

// ---- joining

plan::Announcement Agent::announcement() const {
  plan::Announcement self;
  self.agent = {place_};
  self.host = host_name(place_);
  self.node = NodeIndex{place_};
  self.workers = world_.launch().workers;
  self.max_restarts = world_.launch().max_restarts;
  self.addresses = {fmt::format("10.0.0.{}", place_ + 1), fmt::format("10.1.0.{}", place_ + 1)};
  if (world_.launch().by_network) self.network.switches = fmt::format("s0/leaf{}", place_ % k_switches);
  if (world_.launch().saves) self.checkpoint_door = "30000/secret";
  self.successor_port = place_ == 0 ? 0 : k_successor_port + place_;
  return self;
}

void Agent::start() {
  world_.tell(name(), "starts");
  started_ = true;
  if (place_ == 0) return begin_coordinator(coordinator_settings(), std::nullopt);
  MemberJoinSettings join;
  join.coordinator = "n1";
  join.join_timeout = world_.launch().join_timeout;
  const int known = world_.coordinator_place();
  join.addresses = {fmt::format("10.0.0.{}", known + 1), fmt::format("10.1.0.{}", known + 1)};
  join.ports = {known == 0 ? k_first_port : k_successor_port + known};
  begin_member(std::move(join), std::nullopt);
}

void Agent::send(AgentMessage message) {
  if (coordinator_)
    coordinator_->input([this, message = std::move(message)](TimePoint now) {
      return coordinator_->machine.on_message(k_local_connection, message, now);
    });
  else if (member_)
    member_->send(message);
}

void Agent::on_message(const CoordinatorMessage& message) {
  if (!alive_) return;
  std::visit([this](const auto& each) { handle(each); }, message);
}

void Agent::handle(const Refused& refused) {
  last_words_ = refused.reason;
  carry_out(life_.on_refused(refused.reason, refused.hint));
}

void Agent::handle(const Roster& roster) {
  turn_.cancel();
  if (roster.ending) life_.note_job_ends(roster.ending->signal, roster.ending->host);
  if (next_.note(roster)) send(RosterTaken{roster.number()});
}

void Agent::handle(const Start& start) {
  if (!life_.accepts_start(workers_state())) return;
  world_.note_share(*this, led_by_, start.assignment);
  life_.note_start();
  told_failure_.reset();
  failures_.clear();
  ranks_ = start.assignment.workers;
  attempt_ = start.assignment.attempt;
  begin_checkpoints(start);
  supervisor_.note_start(start.assignment);
  decide();
}

void Agent::handle(const Standby&) { life_.note_standby(); }

void Agent::handle(const Look& look) {
  Looked looked{look.attempt};
  if (place_ > 0 && !world_.one_loss() && one_in(world_.random(), 60))
    looked.unfit.what = "GPU: GPU 3: GPU is lost";
  post([this, looked] {
    if (life_.linked()) send(looked);
  });
}

void Agent::handle(const Stop& stop) {
  stopping_ = true;
  carry_out(life_.on_stop(stop.attempt, stop.signal, stop.whole_tree));
  decide();
}

void Agent::handle(const Finish& finish) {
  if (life_.believes(finish.cause)) last_words_ = describe(finish.cause);
  carry_out(life_.on_finish(finish.cause, {}));
}

void Agent::on_lost(const std::string& what) {
  last_words_ = what;
  carry_out(life_.on_lost(what, {}));
}

void Agent::on_coordinator_lost(const std::string& what, ConnectionEnd end) {
  world_.tell(name(), what);
  listens_ = listens_ || place_ != 0;
  const auto why = next_.note_lost(what, end, listens_, world_.clock().now());
  if (why) return on_lost(*why);
  stopping_ = true;
  carry_out(life_.on_lost(what, {}, true));
}

void Agent::rejoin() {
  if (life_.ending()) return;
  stopping_ = false;
  member_.reset();
  const auto search = next_.next(world_.clock().now());
  MemberJoinSettings join;
  join.successors = search.successors;
  join.join_timeout = search.timeout;
  begin_member(std::move(join), next_.survivor());
  if (!search.takes_over_at) return;
  set_timer(turn_, *search.takes_over_at, [this] {
    if (!life_.ending()) take_over();
  });
}

void Agent::take_over() {
  if (member_) member_->close();
  member_.reset();
  CoordinatorSettings settings = coordinator_settings();
  next_.inherit(settings);
  world_.tell(name(), "coordinates");
  begin_coordinator(std::move(settings), next_.survivor());
}

// ---- workers

void Agent::end_worker(std::size_t worker, ExitStatus status) {
  if (!status.success()) {
    report::Failure failure;
    failure.attempt = attempt_;
    failure.rank = ranks_.at(worker).rank;
    failure.host = host_name(place_);
    failure.status = status;
    failure.after_stop = stopping_;
    failures_.push_back(failure);
  }
  world_.note_end_told(number_, worker);
  supervisor_.note_ended(worker, status);
  decide_soon();
}

void Agent::decide_soon() {
  if (std::exchange(decision_pending_, true)) return;
  post([this] {
    decision_pending_ = false;
    decide();
  });
}

void Agent::decide() {
  const auto actions = supervisor_.decide(world_.clock().now());
  for (const auto& action : actions) std::visit([this](const auto& each) { carry_out(each); }, action);
  arm_timer();
  if (!actions.empty()) decide_soon();
  carry_out(life_.on_workers(workers_state()));
}

void Agent::arm_timer() {
  const auto deadline = supervisor_.deadline();
  if (!deadline) return timer_.cancel();
  set_timer(timer_, *deadline, [this] {
    if (supervisor_.sweeping()) supervisor_.note_descendants(0);
    decide();
  });
}

void Agent::carry_out(const lifecycle::act::Spawn& action) {
  world_.spawn(*this, action.worker, led_by_, attempt_, ranks_.at(action.worker).rank.value);
  supervisor_.note_spawned(action.worker);
}

void Agent::carry_out(const lifecycle::act::SignalWorker& action) {
  world_.signal(number_, action.worker, action.signal);
}

void Agent::carry_out(const lifecycle::act::KillGroup& action) {
  world_.signal(number_, action.worker, SIGKILL);
}

void Agent::carry_out(const lifecycle::act::SignalDescendants&) { supervisor_.note_descendants(0); }

void Agent::carry_out(const lifecycle::act::ReportFailure& action) {
  const GlobalRank rank = ranks_.at(action.worker).rank;
  const auto found = std::ranges::find_if(failures_, [&](const auto& each) { return each.rank == rank; });
  if (found == failures_.end()) return;
  told_failure_ = *found;
  if (life_.linked()) send(AttemptFailed{supervisor_.attempt(), *found});
}

void Agent::carry_out(const lifecycle::act::ReportRequest& action) {
  carry_out(life_.on_request(action.signal));
}

void Agent::carry_out(const lifecycle::act::ReportSuccess&) {
  life_.note_succeeded();
  if (life_.linked() && world_.launch().saves) send(CheckpointsHeld{store_.held()});
  if (life_.linked()) send(AttemptSucceeded{supervisor_.attempt()});
}

// ---- its life

void Agent::carry_out(const lifecycle::AgentLifecycle::Actions& actions) {
  for (const lifecycle::LifeAction& action : actions)
    std::visit([this](const auto& each) { carry_out(each); }, action);
}

void Agent::carry_out(const lifecycle::life::SayError& action) {
  if (last_words_.empty()) last_words_ = action.what;
}

void Agent::carry_out(const lifecycle::life::StopWorkers& action) {
  using Delivery = lifecycle::Supervisor::Delivery;
  supervisor_.note_stop(action.signal, action.hurry, world_.clock().now(),
                        action.undecided ? Delivery::undecided : Delivery::by_us);
  if (action.of_job) decide_soon();
}

// Nothing below this process had the signal.
void Agent::carry_out(const lifecycle::life::Judge& action) {
  post([this, action] {
    const lifecycle::SignalLedger::Verdict verdict{action.signal, true, false};
    supervisor_.note_delivery(verdict.number, verdict.pass_on);
    carry_out(life_.on_verdict(verdict));
    decide();
  });
}

void Agent::carry_out(const lifecycle::life::SendStopRequest& action) {
  send(StopRequest{action.signal, host_name(place_), action.whole_tree});
}

void Agent::carry_out(const lifecycle::life::SendStuck& action) { send(Stuck{action.attempt}); }

void Agent::carry_out(const lifecycle::life::SendStopped& action) {
  Stopped stopped{action.attempt, {}, {}, false};
  for (const report::Failure& each : failures_) {
    if (each.after_stop) stopped.stopped.push_back(each.rank.value);
    if (!each.after_stop && !(told_failure_ && told_failure_->rank == each.rank))
      stopped.failures.push_back(each);
  }
  if (stopped.failures.size() > k_max_further_failures) stopped.failures.resize(k_max_further_failures);
  stopping_ = false;
  stopped.checkpoints = tell_all_checkpoints();
  if (place_ > 0 && !world_.one_loss() && one_in(world_.random(), 60))
    stopped.unfit.what = "GPU: GPU 3: GPU is lost";
  send(stopped);
}

void Agent::carry_out(const lifecycle::life::ReadOutput&) {
  post([this] { carry_out(life_.on_output_read()); });
}

void Agent::carry_out(const lifecycle::life::WriteOutput&) {
  post([this] { carry_out(life_.on_output_written()); });
}

void Agent::carry_out(const lifecycle::life::Rejoin&) {
  post([this] { rejoin(); });
}

void Agent::carry_out(const lifecycle::life::Leave&) {
  post([this] { leave(); });
}

void Agent::ask_to_stop(int signal) {
  post([this, signal] {
    carry_out(life_.on_stop_signal(signal, lifecycle::SignalWay::own, false, false, world_.clock().now()));
    decide();
  });
}

void Agent::ask_to_restart(const std::string& drained) {
  post([this, drained] {
    if (life_.reaches_coordinator()) send(RestartRequest{1, drained, "ada"});
  });
}

}  // namespace ddprun::simulation
