// Status of the running job: answers to --status, and lines for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "profile/rank_profile.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/waiting_text.hpp"
#include "slow/slow_rank.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr Milliseconds k_gathering_delay{1000}, k_running_delay{10000}, k_stopping_delay{3000};
constexpr Milliseconds k_live_interval{1000}, k_plain_interval{30000};

void show_job(ConnectionId asker, const status::JobStatus& job, bool stacks, Coordinator::Actions& actions) {
  for (const status::NodeStatus& node : job.here) actions.push_back(SendTo{asker, NodeShown{stacks, node}});
  status::JobStatus rest = job;
  rest.here.clear();
  actions.push_back(SendTo{asker, JobShown{stacks, std::move(rest)}});
}

}  // namespace

// Records an event. The driver knows the time, and this host's name if the event has no other.
void Coordinator::record(events::Event event) {
  if (settings_.record) actions_.push_back(Record{std::move(event)});
}

void Coordinator::handle(ConnectionId, const Happened& happened, TimePoint) { record(happened.event); }

void Coordinator::handle(ConnectionId connection, const JobQuestion& question, TimePoint now) {
  using enum StatusRound::Purpose;
  status_round_.want(question.stacks ? stacks : status, connection);
  ask(now);
}

void Coordinator::ask(TimePoint now) {
  std::set<ConnectionId> agents;
  for (const auto& [connection, agent] : members_.here()) agents.insert(connection);
  const auto question = status_round_.begin(agents, now);
  if (!question) return;
  for (const ConnectionId connection : agents) actions_.push_back(SendTo{connection, *question});
}

void Coordinator::handle(ConnectionId connection, const StatusAnswer& answer, TimePoint now) {
  status_round_.note(connection, answer);
  if (status_round_.is_over(now)) end_round(now);
}

void Coordinator::end_round(TimePoint now) {
  using enum StatusRound::Purpose;
  const StatusRound::Purpose purpose = status_round_.purpose();
  const status::JobStatus job = job_status();
  if (purpose == hang || purpose == early_exit) {
    judge_hang(job, purpose == early_exit, now);
  } else if (purpose == slow) {
    tell_slow(job, now);
  } else {
    for (const ConnectionId asker : status_round_.askers()) show_job(asker, job, purpose == stacks, actions_);
  }
  if (state_ != State::finished) ask(now);
}

status::JobStatus Coordinator::job_status() {
  status::JobStatus status;
  status.launch_id = settings_.launch_id;
  status.phase = describe_phase();
  status.attempt = attempt_.value;
  status.restarts = policy_.used().used;
  status.max_restarts = settings_.max_restarts;
  status.nodes = settings_.agents;
  if (!world_.assignments.empty()) {
    status.nodes = world_.assignments.front().node_count;
    status.workers = world_.world_size;
  }
  for (const ConnectionId connection : status_round_.silent()) {
    const auto found = members_.here().find(connection);
    if (found != members_.here().end()) status.silent.push_back(host_of(found->second));
  }
  status.here = status_round_.take_answers();
  slow::add_waits(status, slow_);
  return status;
}

std::string Coordinator::describe_phase() const {
  switch (state_) {
    case State::gathering:
      return "waiting for " + describe_missing(members_.missing(), settings_.agents, settings_.peers);
    case State::probing:
      return "looking for an address that all nodes reach";
    case State::opening:
      return waits_to_restart() ? "waiting to restart" : "starting";
    case State::running:
      return "running";
    case State::stopping:
      return "stopping the workers";
    case State::finished:
      break;
  }
  return "ended";
}

// ---- profiles: the coordinator keeps nothing of them, it passes on

void Coordinator::handle(ConnectionId connection, const ProfileRequest& request, TimePoint) {
  ProfileRequest asked = request;
  asked.asker = connection.value;
  std::vector<std::string> hosts;
  for (const auto& [agent, index] : members_.here()) {
    if (may_run_workers(index)) hosts.push_back(host_of(index));
  }
  const int agents = static_cast<int>(members_.here().size());
  actions_.push_back(SendTo{
      connection, ProfilePart{request.number, asked.asker, agents, false, profile::render_asked(hosts)}});
  for (const auto& [agent, index] : members_.here()) actions_.push_back(SendTo{agent, asked});
}

void Coordinator::handle(ConnectionId, const ProfilePart& part, TimePoint) {
  const ConnectionId asker{part.asker};
  if (!members_.here().contains(asker)) return;
  ProfilePart passed = part;
  passed.agents = 0;
  actions_.push_back(SendTo{asker, std::move(passed)});
}

// ---- waiting

Coordinator::Actions Coordinator::on_connections(int count, TimePoint now) {
  if (state_ != State::running) return {};
  connections_ = std::max(connections_, count);
  settle(now);
  return std::exchange(actions_, {});
}

bool Coordinator::has_status() const {
  if (state_ == State::gathering || state_ == State::stopping) return true;
  if (waits_to_restart()) return settings_.live;
  return state_ == State::running && settings_.live && settings_.connects && world_.world_size > 1 &&
         connections_ < world_.world_size;
}

// Returns the delay before a status line: a state that ends sooner is not worth one.
Milliseconds Coordinator::status_delay() const {
  if (status_state_ == State::gathering || status_state_ == State::opening) return k_gathering_delay;
  if (status_state_ == State::running) return k_running_delay;
  return settings_.live ? k_stopping_delay : k_plain_interval;
}

std::optional<TimePoint> Coordinator::status_due() const {
  if (status_state_ != state_ || !has_status() || !(settings_.live || status_stale_)) return std::nullopt;
  return status_due_;
}

void Coordinator::update_status(TimePoint now) {
  if (std::exchange(status_state_, state_) != state_) {
    status_since_ = now;
    status_due_ = now + status_delay();
    status_stale_ = true;
  }
  std::string text = status_shown_;
  if (!has_status() || now < status_since_ + status_delay()) {
    text.clear();
  } else if (const auto due = status_due(); due && now >= *due) {
    text = describe_waiting(now);
    status_stale_ = false;
    status_due_ = now + (settings_.live ? k_live_interval : k_plain_interval);
  }
  if (text == status_shown_) return;
  status_shown_ = text;
  // EndJob stays the last action.
  const auto end = state_ == State::finished ? actions_.end() - 1 : actions_.end();
  actions_.insert(end, ShowStatus{text});
}

std::string Coordinator::describe_waiting(TimePoint now) const {
  const Milliseconds waited = std::chrono::floor<std::chrono::seconds>(now - status_since_);
  const std::string since = settings_.live ? ", for " + describe_duration(waited) : "";
  if (state_ == State::running) {
    return fmt::format(
        "{} of {} not connected to the store yet, {} after the start", world_.world_size - connections_,
        world_.world_size == 1 ? "1 worker has" : fmt::format("{} workers have", world_.world_size),
        describe_duration(waited));
  }
  if (waits_to_restart()) {
    const Milliseconds left = std::chrono::ceil<std::chrono::seconds>(*state_deadline_ - now);
    return fmt::format("starting all workers again in {}", describe_duration(left));
  }
  if (state_ == State::stopping) {
    std::vector<int> busy;
    for (int index = 0; index < settings_.agents; ++index) {
      if (is_busy({index})) busy.push_back(index);
    }
    if (checkpoints_.holds_end())
      return "waiting for the last checkpoint to be written to " + settings_.checkpoints->flush + since;
    if (busy.empty()) return "waiting for the spares to look at their nodes" + since;
    const std::string whose =
        settings_.agents == 1 ? "" : " of " + describe_missing(busy, settings_.agents, settings_.peers);
    return fmt::format("waiting for the workers{} to stop{}; those left after {} are killed", whose, since,
                       describe_duration(settings_.grace));
  }
  std::string text = "waiting for " + describe_missing(members_.missing(), settings_.agents, settings_.peers);
  if (!refused_.empty()) {
    text += fmt::format("; refused {}: {}", printable(refused_.begin()->first), refused_.begin()->second);
  }
  return text + since;
}

}  // namespace ddprun::rendezvous
