#include "agent/driver.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "agent/job_end_watch.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/handlers.hpp"
#include "event_loop/signal_watch.hpp"
#include "lifecycle/after_success.hpp"
#include "net/timers.hpp"
#include "os/machine/capture_network.hpp"
#include "os/process/child.hpp"
#include "os/process/process_table.hpp"
#include "os/system_failure.hpp"
#include "plan/master_variables.hpp"
#include "plan/worker_env.hpp"
#include "probes/node_record.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

namespace {

using boost::system::error_code;

constexpr Milliseconds k_silent_telling{2000};
constexpr std::size_t k_most_hangs = 16;  // number of hangs that the report keeps

JobStoreSettings store_settings(const plan::NodeProposal& node, std::function<bool()> has_torch) {
  const bool several = node.rendezvous.agents > 1;
  JobStoreSettings settings;
  settings.port = node.store_port;
  settings.port_is_shared = node.store_port && several;
  if (several) settings.range = node.site.profile.ports;
  settings.port_hint = plan::other_port_hint(node.allocation.first_port);
  settings.access = node.options.store_access;
  if (node.options.store_memory) settings.memory = node.options.store_memory->value;
  if (!node.offered.empty() && lifecycle::starts_python(node.offered.front().command)) {
    settings.on_silence = [waited = settings.silence, has_torch = std::move(has_torch)] {
      if (!has_torch()) return;
      const allocation::Notice notice = lifecycle::describe_silent_store(waited);
      console::say_notice(notice);
    };
  }
  return settings;
}

// A person who stops a job knows.
bool ends_badly(const report::Cause& cause) {
  using Kind = report::Cause::Kind;
  return cause.kind != Kind::success && cause.kind != Kind::stopped_by_signal;
}

lifecycle::AgentLifecycle::Limits limits_of(const options::Options& options) {
  lifecycle::AgentLifecycle::Limits limits;
  limits.others_go_on = options::outlives_nodes(options);
  return limits;
}

std::string name_user(const facts::Snapshot& snapshot) {
  const auto name = facts::find_variable(snapshot, "USER");
  return name && !name->empty() ? printable(*name, 64) : fmt::format("user {}", ::geteuid());
}

std::optional<lifecycle::AgentLifecycle::OwnFailure> own_failure(
    const std::optional<rendezvous::LaunchFailure>& failure, const std::string& host) {
  if (!failure) return std::nullopt;
  const std::string where = failure->names_host ? " on " + host : "";
  return lifecycle::AgentLifecycle::OwnFailure{failure->what + where + failure->rest, failure->hint,
                                               failure->exit_code};
}

}  // namespace

Driver::Driver(const plan::LaunchPlan& expected, const facts::Snapshot& snapshot,
               streams::OutputLink& output_link, std::optional<rendezvous::LaunchFailure> failure,
               probes::StartLook look)
    : plans_{expected.node},
      said_(expected.notices),
      snapshot_(snapshot),
      output_link_(output_link),
      signals_(context_, event_loop::watched_signals_of(plans_.node->options),
               workers::WorkerGroup::group_of_workers(*plans_.node)),
      timer_(context_),
      supervisor_(plans_.node->options.shutdown_timeout.value),
      store_(context_, store_settings(*plans_.node, [this] { return workers_.has_loaded("/libtorch"); })),
      local_store_(context_, plans_, snapshot, store_),
      workers_(context_, plans_.node, snapshot,
               [this](std::size_t worker, const ExitStatus& status) { on_worker_ended(worker, status); }),
      files_(context_, plans_, snapshot_),
      events_(plans_, workers_, files_,
              [this](events::Event event) { link_.send_if_linked(rendezvous::Happened{std::move(event)}); }),
      endings_(
          workers_,
          [this] {
            if (std::exchange(ends_attempt_, false)) workers_.end_attempt();
            decide_soon();
          },
          look.record.has_value()),
      telling_timer_(context_),
      parting_timer_(context_),
      life_(plans_.node->host, own_failure(failure, plans_.node->host), limits_of(plans_.node->options)),
      stage_(context_, plans_, snapshot_, [this] { on_staged(); }),
      checkpoints_(context_, make_checkpoint_settings(*plans_.node), checkpoint_hooks()),
      link_(context_,
            {plans_, snapshot_, workers_, store_, local_store_, events_, life_, output_link_, stage_.door(),
             checkpoints_},
            failure, link_hooks()),
      front_end_(context_, plans_,
                 {[this](const rendezvous::lifeline::Signal& signal) { on_told_signal(signal); },
                  [this](const std::string& why) { lose_front_end(why); }}),
      status_(context_, plans_, workers_, began_),
      restarts_(context_, name_user(snapshot), plans_.node->host,
                [this](rendezvous::AgentMessage message) { return link_.ask(std::move(message)); }),
      profiles_(context_, workers_,
                [this](rendezvous::AgentMessage message) { return link_.ask(std::move(message)); }),
      hangs_(context_, plans_, snapshot_.host, status_,
             [this](rendezvous::AgentMessage message) { link_.send_if_linked(std::move(message)); }),
      traces_(context_, workers_,
              [this](rendezvous::AgentMessage message) { link_.send_if_linked(std::move(message)); }),
      standbys_(context_, plans_, expected, snapshot_.host, workers_,
                [this](rendezvous::AgentMessage message) { link_.send_if_linked(std::move(message)); }),
      node_look_(context_, plans_, snapshot_, workers_, std::move(look)),
      on_failure_(context_, plans_, snapshot_),
      job_end_(context_, plans_, job_end_hooks()),
      warned_workers_(context_, plans_, workers_,
                      {[this](std::size_t worker) { return supervisor_.running(worker); },
                       [this](int signal) { supervisor_.note_delivery(signal, /*pass_on=*/false); }}),
      grace_(context_),
      only_tells_(failure.has_value()) {
  // A script's, which became ddprun by exec: `daemon & exec ddprun ...`.
  for (const int inherited : os::capture_children()) workers_.spare(inherited);
  console::route_log([this](const std::string& lines) { workers_.outputs().insert_error(lines); });
  if (events_.wanted()) {
    workers_.outputs().when_heard(
        [this](std::size_t worker) { events_.record_worker(events::EventKind::output, worker); });
  }
  store_.when_connected([this](std::size_t connections) {
    if (auto* const here = link_.coordinator()) here->note_connections(static_cast<int>(connections));
    events_.record_connections(connections);
  });
  workers_.outputs().pumps().before_writing([] { console::show_status(""); });
  workers_.outputs().pumps().output().when_failing([this](int error) {
    console::say_notice(
        fmt::format("cannot write to standard output on {}: {}; the workers continue without it",
                    plans_.node->host, os::describe_errno(error)),
        {});
  });
}

void Driver::on_worker_ended(std::size_t worker, const ExitStatus& status) {
  if (workers_.had_terminal(worker)) supervisor_.note_terminal();
  events_.record_exit(worker, status);
  endings_.note_end(worker, status, os::now());
  supervisor_.note_ended(worker, status);
  if (status.success()) hangs_.note_exit(worker);
  decide_soon();
}

CoordinatorLink::Hooks Driver::link_hooks() {
  CoordinatorLink::Hooks hooks;
  hooks.open_store = [this](const rendezvous::OpenStore& open) { return open_store(open); };
  hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) { on_message(message); };
  hooks.show_restart = [this](const rendezvous::ShowRestart& restart) {
    if (on_failure_.wanted()) {
      rendezvous::Finish failed;
      failed.cause.kind = report::Cause::Kind::worker_failed;
      failed.cause.failure = restart.cause;
      on_failure_.attempt_failed(render_report_json(failed, plans_, began_, requeue_));
    }
    console::say(
        report::render_restart(restart.cause, restart.restarts, restart.max_restarts, restart.delay));
  };
  hooks.show_hang = [this](const status::Verdict& verdict) { show_hang(verdict); };
  hooks.on_lost = [this](const std::string& what, const std::string& hint, bool may_rejoin) {
    held_start_.reset();
    checkpoints_.take({});  // the next coordinator has orders of its own
    node_look_.end();
    carry_out(life_.on_lost(what, hint, may_rejoin));
  };
  hooks.on_job_ends = [this] { node_look_.give_up(); };
  hooks.on_told_all = [this] { carry_out(life_.on_workers(workers_state())); };
  hooks.on_coordinator_ended = [this] {
    coordinator_ended_ = true;
    parting_timer_.cancel();
  };
  return hooks;
}

Driver::~Driver() {
  console::route_log({});
  output_link_.cancel();
}

int Driver::run() {
  os::adopt_orphans();
  watch_signals();
  front_end_.hold(snapshot_);
  if (only_tells_) limit_telling();
  checkpoints_.when_first_known([this] { link_.join(); });
  const options::Options& options = plans_.node->options;
  if (!options.several_programs) {  // each program answers for itself
    status_.serve([this](bool stacks) { on_status_asked(stacks); });
    restarts_.serve();
    profiles_.serve();
  }
  if (options.hang.profile_every && !options.output.logs.value.empty())
    profiles_.repeat(options.hang.profile_every->value);
  while (!context_.stopped()) run_handlers();
  stage_.end();
  checkpoints_.end(keeps_checkpoints_);
  return life_.exit_code();
}

// Runs the event loop, as the border of all handlers: what one of them throws ends the job in order, with all
// workers stopped. Should that fail too, the reaper cleans up.
void Driver::run_handlers() {
  try {
    context_.run();
  } catch (const std::exception& error) {
    if (std::exchange(failed_, true)) throw;
    fail(fmt::format("on {}: {}", plans_.node->host, event_loop::describe_exception(error)));
  }
}

void Driver::fail(const std::string& why) {
  const bool had_left = life_.left();
  carry_out(life_.on_exception(why));
  if (had_left) context_.stop();
}

net::StoreOpened Driver::open_store(const rendezvous::OpenStore& open) {
  store_.allow(open.clients);
  world_size_ = open.world_size;
  if (plans_.node->options.store == options::StoreHost::worker && open.world_size > 1 &&
      open.attempt.value == 0) {
    console::say_notice(
        "until rank 0 listens, another user of its host can take the port kept for --store worker",
        "leave out --store worker: ddprun's own store accepts the job's user only");
  }
  try {
    return {store_.open(open.attempt, plan::worker_hosts_store(plans_.node->options, open.world_size)), {}};
  } catch (const Error& error) {
    return {0, error.what() + (error.hint().empty() ? "" : "; " + error.hint())};
  }
}

// Returns the interface that carries the traffic between the hosts, if there are several: --local-addr's,
// that of MASTER_ADDR if it is this host's, else the one by which this host reached it. Only a store of a
// worker elsewhere was not reached.
std::string Driver::proven_interface(const plan::Assignment& assignment) const {
  if (assignment.node_count < 2) return {};
  const std::string& master = assignment.master_address;
  const std::vector<facts::InterfaceAddress>& own = snapshot_.host.addresses;
  if (const auto& named = plans_.node->options.local_address;
      named && !rendezvous::interface_of(own, named->value).empty())
    return rendezvous::interface_of(own, named->value);
  if (const std::string here = rendezvous::interface_of(own, master); !here.empty()) return here;
  const std::string reached = link_.local_end(master);
  return rendezvous::interface_of(own, reached.empty() ? net::routed_local_address(master) : reached);
}

void Driver::on_status_asked(bool stacks) {
  const auto show_this_host = [this, stacks] {
    status_.show_this_host(link_.coordinator_host(), life_.ending(), stacks);
  };
  link_.ask(rendezvous::JobQuestion{stacks}) ? status_.wait_for_job(stacks, show_this_host)
                                             : show_this_host();
}

void Driver::show_hang(const status::Verdict& verdict) {
  const std::string what = status::describe(verdict);
  if (hangs_shown_.size() == k_most_hangs) hangs_shown_.erase(hangs_shown_.begin());
  hangs_shown_.push_back({verdict.rank, verdict.host, plans_.attempt->assignment.attempt.value,
                          os::unix_milliseconds(), what, verdict.hint});
  console::say_notice(fmt::format("{}\n{}", what, trim(verdict.places)), verdict.hint);
}

void Driver::handle(const rendezvous::StatusQuestion& question) {
  status_.measure(question.stacks ? inspection::Depth::stacks : inspection::Depth::usage,
                  [this, number = question.question](const status::NodeStatus& status) {
                    link_.send_if_linked(rendezvous::StatusAnswer{number, status});
                  });
}

// Limits the time for reporting a failure: a person who types the same line on several hosts reads on each
// what is wrong with it, and does not wait for long; hosts that a scheduler starts together meet before that.
void Driver::limit_telling() {
  net::call_after(telling_timer_, k_silent_telling, [this] { carry_out(life_.on_not_heard()); });
}

void Driver::lose_front_end(const std::string& why) {
  if (!life_.ending()) {
    const std::string what = fmt::format("agent on {} lost its launching ddprun: {}", plans_.node->host, why);
    plans_.node->rendezvous.agent.value == 0 ? console::say_error(what) : console::say_detail(what);
  }
  carry_out(life_.on_front_end_lost(os::now()));
  decide();
}

void Driver::on_message(const rendezvous::CoordinatorMessage& message) {
  std::visit([this](const auto& each) { handle(each); }, message);
}

void Driver::handle(const rendezvous::Refused& refused) {
  carry_out(life_.on_refused(refused.reason, refused.hint));
}

void Driver::handle(const rendezvous::ClientQuestion& question) {
  rendezvous::ClientVerdict verdict{question.connection};
  if (question.access == options::StoreAccess::host) {
    const bool here = !rendezvous::interface_of(os::capture_addresses(), question.connection.client).empty();
    verdict.holder = here ? rendezvous::Holder::own : rendezvous::Holder::elsewhere;
  } else if (const auto ends = net::from_text(question.connection)) {
    verdict.holder = net::find_holder(*ends, ::geteuid());
  }
  link_.send(verdict);
}

// Says that each ddprun is one worker, since the launcher started one on this host and several on another.
void Driver::tell_task_style() const {
  if (plans_.node->rendezvous.agent.value != 0) return;
  console::say_notice(
      fmt::format("{} started several ddprun processes on one host, so each of them starts one worker",
                  plans_.node->allocation.launcher.value),
      "to let ddprun start the workers of a node, start one ddprun on each node");
}

// A scheduler that has signalled another host's whole tree is about to signal this one's.
void Driver::handle(const rendezvous::Stop& stop) {
  held_start_.reset();
  hangs_.end_attempt();
  traces_.end_attempt();
  node_look_.begin(stop, stop.failure && told_failure_ == stop.failure->rank);
  carry_out(life_.on_stop(stop.attempt, stop.signal, stop.whole_tree));
  decide();
}

void Driver::handle(const rendezvous::Finish& end) {
  held_start_.reset();
  node_look_.end();
  hangs_.end_attempt();
  traces_.end_attempt();
  if (end.drained) console::say_notice(probes::exclude_node(*plans_.node));
  // Not those of a node that the others have gone on without: they are of another history.
  const bool left_alone = end.drained || (end.cause.kind == report::Cause::Kind::agent_lost &&
                                          end.cause.host == plans_.node->host);
  keeps_checkpoints_ =
      plans_.node->options.checkpoint.keep && !left_alone && end.cause.kind != report::Cause::Kind::success;
  rendezvous::Finish finish = end;
  if (finish.report_here) explain_end(finish);
  finish.hangs = hangs_shown_;
  console::show_status("");
  std::string said;
  if (life_.believes(finish.cause)) {
    telling_timer_.cancel();
    if (finish.report_here) {
      requeue_.decide(finish, plans_, job_end_.warned());
      said = report_end(finish, plans_, began_, requeue_, files_);
      if (on_failure_.wanted() && ends_badly(finish.cause))
        ended_badly_ = render_report_json(finish, plans_, began_, requeue_);
    }
    tell_outer_launcher(finish.cause, files_);
    if (finish.report_here && finish.cause.kind == report::Cause::Kind::success) tell_unused_store();
  }
  carry_out(life_.on_finish(finish.cause, std::move(said)));
}

void Driver::tell_unused_store() {
  if (!store_.unused() || !lifecycle::may_train_together(plans_.node->offered.front().command)) return;
  const allocation::Notice notice = lifecycle::describe_unused_store(world_size_);
  console::say_notice(notice);
}

void Driver::on_lost(const std::string& what, const std::string& hint) {
  carry_out(life_.on_lost(what, hint));
}

lifecycle::AgentLifecycle::Workers Driver::workers_state() const {
  return {supervisor_.idle(), endings_.settled(), supervisor_.stuck(), traced_};
}

void Driver::decide_soon() {
  if (std::exchange(decision_pending_, true)) return;
  boost::asio::post(context_, [this] {
    decision_pending_ = false;
    decide();
  });
}

void Driver::decide() {
  const auto actions = supervisor_.decide(os::now());
  for (const auto& action : actions) std::visit([this](const auto& each) { carry_out(each); }, action);
  arm_timer();
  if (!actions.empty()) decide_soon();
  carry_out(life_.on_workers(workers_state()));
}

void Driver::carry_out(const lifecycle::act::Spawn& action) {
  if (!workers_.start(action.worker)) return;
  signals_.note_worker();
  supervisor_.note_spawned(action.worker);
  standbys_.note_start(action.worker);
  events_.record_worker(events::EventKind::start, action.worker);
}

void Driver::carry_out(const lifecycle::act::SignalWorker& action) {
  workers_.signal(action.worker, action.signal);
}

void Driver::carry_out(const lifecycle::act::ContinueWorker& action) {
  workers_.continue_stopped(action.worker);
}

void Driver::carry_out(const lifecycle::act::LookWhereTheyAre&) {
  status_.measure(inspection::Depth::stacks,
                  [this](const status::NodeStatus& node) { endings_.note_places(node); });
}

void Driver::carry_out(const lifecycle::act::KillGroup& action) {
  endings_.note_kill(action.worker, action.signal, action.after);
  workers_.kill_group(action.worker);
}

void Driver::carry_out(const lifecycle::act::SignalDescendants& action) {
  if (action.after_success) workers_.tell_survivors();
  supervisor_.note_descendants(workers_.signal_descendants(action.signal));
}

void Driver::carry_out(const lifecycle::act::ReportFailure& action) {
  const Attempt attempt = supervisor_.attempt();
  endings_.when_described(action.worker, [this, attempt](const report::Failure& failure) {
    told_failure_ = failure.rank;
    link_.send_if_linked(rendezvous::AttemptFailed{attempt, failure});
  });
}

void Driver::carry_out(const lifecycle::act::ReportStuck& action) {
  traced_ |= workers_.tell_stuck(action.worker, lifecycle::k_stuck_after).tracer != 0;
}

void Driver::carry_out(const lifecycle::act::ReportLeftBehind&) {
  workers_.tell_left_behind(lifecycle::k_sweep_limit * lifecycle::k_sweep_grace);
}

void Driver::carry_out(const lifecycle::act::ReportRequest& action) {
  carry_out(life_.on_request(action.signal));
}

void Driver::carry_out(const lifecycle::act::ReportSuccess&) {
  life_.note_succeeded();
  workers_.end_attempt();
  checkpoints_.when_settled([this, attempt = supervisor_.attempt()] {  // tells of the last step
    link_.send_if_linked(rendezvous::AttemptSucceeded{attempt});
  });
}

void Driver::carry_out(const lifecycle::act::ReportStopped&) { end_attempt(); }

// Ends the attempt here, once the last words of those that failed are read.
void Driver::end_attempt() {
  hangs_.end_attempt();
  traces_.end_attempt();
  standbys_.end_attempt();
  ends_attempt_ = !endings_.settled();
  if (!ends_attempt_) workers_.end_attempt();
}

void Driver::arm_timer() {
  net::call_at(timer_, supervisor_.deadline(), [this] {
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
    decide();
  });
}

}  // namespace ddprun::agent
