#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

// Status of the running job: answers to --status, and lines for a terminal.

namespace {

constexpr Milliseconds k_gathering_delay{1000}, k_running_delay{10000}, k_stopping_delay{3000};
constexpr Milliseconds k_live_interval{1000}, k_plain_interval{30000};

}  // namespace

// Records an event. The driver knows the time, and this host's name if the event has no other.
void Coordinator::record(events::Event event) {
  if (settings_.record) actions_.push_back(Record{std::move(event)});
}

void Coordinator::handle(ConnectionId, const Happened& happened, TimePoint) { record(happened.event); }

JobFacts Coordinator::job_facts() const {
  return {settings_,
          members_,
          state_,
          attempt_,
          policy_.used().used,
          world_,
          [this] { return describe_phase(); },
          [this](AgentIndex agent) { return !members_.takes_part(agent) || at(agent).succeeded; },
          [this](AgentIndex agent) { return may_run_workers(agent); }};
}

void Coordinator::carry_out(JobWatch::Found found, TimePoint now) {
  std::ranges::move(found.actions, std::back_inserter(actions_));
  if (found.hang) fail_hung(*found.hang, now);
  if (!found.slow) return;
  found.slow->what += replace_slow(found.slow->worker->rank, now);
  record(told::slow(attempt_, *found.slow));
  actions_.push_back(ShowNotice{{found.slow->what, found.slow->hint}});
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

// Agents whose connection is there, but which do not answer: they are named, and lost once the others wait
// for nothing else.

namespace {

allocation::Notice describe_silent(const std::string& name, const std::string& host, int pid,
                                   Milliseconds silence) {
  const std::string who = pid > 0 ? fmt::format(", pid {},", pid) : "";
  return {fmt::format("ddprun on {}{} has not answered for {}", name, who, describe_seconds(silence)),
          pid > 0
              ? fmt::format("`ps -o stat,wchan -p {0}` on {1} shows its state: T is stopped, and kill -CONT "
                            "{0} on {1} continues it; D waits for a file system or a driver",
                            pid, host)
              : ""};
}

}  // namespace

void Coordinator::note_heard(ConnectionId connection, TimePoint now) {
  if (!settings_.silence || connection == k_local_connection || !members_.here().contains(connection)) return;
  const auto silence = answers_.note_heard(connection, now);
  if (!silence) return;
  const AgentIndex agent = members_.here().at(connection);
  actions_.push_back(ShowNotice{
      {fmt::format("ddprun on {} answers again, after {}", name_of(agent), describe_seconds(*silence)), {}}});
}

void Coordinator::look_for_silent(TimePoint now) {
  if (state_ == State::finished || !answers_.begin_look(now)) return;
  for (const ConnectionId connection : answers_.asked())
    actions_.push_back(SendTo{connection, AliveQuestion{job_end_.grace}});
  for (const ConnectionId connection : answers_.asked()) {
    const auto found = members_.here().find(connection);
    const bool is_silent = found != members_.here().end() && answers_.is_silent(connection, now);
    if (!is_silent || state_ == State::finished) continue;
    const AgentIndex agent = found->second;
    const Milliseconds silence = answers_.silence(connection, now);
    if (answers_.takes_silence(connection))
      actions_.push_back(
          ShowNotice{describe_silent(name_of(agent), host_of(agent), announced(agent).pid, silence)});
    const bool waits = waits_for(agent, now);
    const Milliseconds waited = answers_.note_waiting(connection, waits, now), limit = *settings_.silence;
    if (waits && waited >= limit) {
      expel(connection, "ddprun there has not answered for " + describe_seconds(silence), now);
    } else if (waits) {
      answers_.look_at(now + limit - waited);
    }
  }
}

// All agents are told of it at once.
Coordinator::Actions Coordinator::on_grace(Milliseconds grace, TimePoint now) {
  job_end_.grace = grace;
  settings_.stop_timeout = std::max(settings_.stop_timeout, settings_.stop_timeout - settings_.grace + grace);
  settings_.grace = std::max(settings_.grace, grace);
  if (state_ == State::stopping && !checkpoints_.holds_end())
    state_deadline_ = stopping_since_ + settings_.stop_timeout;
  answers_.look_at(now);
  look_for_silent(now);
  return std::exchange(actions_, {});
}

// Reports whether the job waits for no agent but this one.
bool Coordinator::waits_for(AgentIndex agent, TimePoint now) const {
  if (state_ == State::probing) return at(agent).asked;
  if (state_ == State::stopping) return is_busy(agent) || is_looking(agent);
  if (state_ != State::running || !members_.takes_part(agent) || at(agent).succeeded) return false;
  const auto connection = [&](AgentIndex other) { return *members_.at(other).connection; };
  if (!answers_.has_been_heard_since(connection(agent), started_at_)) return true;  // it has not begun
  return std::ranges::all_of(members_.participants(), [&](AgentIndex other) {
    const bool is_over = !members_.is_here(other) || !members_.takes_part(other) || at(other).succeeded;
    return is_over || answers_.is_silent(connection(other), now);
  });
}

// Restarts that are asked for from outside: --restart and --drain.

namespace {

constexpr std::size_t k_hosts_named = 8;

RestartReply accept(std::string what) { return {0, true, std::move(what)}; }
RestartReply decline(std::string what, std::string hint) {
  return {0, false, std::move(what), std::move(hint)};
}

// Lists the job's hosts, each once.
std::string name_hosts(const Membership& members) {
  std::vector<std::string> hosts;
  for (const auto& [connection, agent] : members.here()) {
    const std::string host = printable(members.at(agent).announcement->host);
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  const std::size_t others = hosts.size() - std::min(hosts.size(), k_hosts_named);
  hosts.resize(hosts.size() - others);
  return join(hosts, ", ") + (others > 0 ? fmt::format(" and {} more", others) : "");
}

}  // namespace

void Coordinator::handle(ConnectionId connection, const RestartRequest& request, TimePoint now) {
  const std::string sender = printable(request.sender);
  const std::vector<AgentIndex> drained = members_.places_of(request.drained);
  RestartReply reply = judge_request(printable(request.drained), drained);
  reply.number = request.number;
  const bool accepted = reply.accepted;
  // Before what follows: the asking agent may be the one that is let go.
  actions_.push_back(SendTo{connection, std::move(reply)});
  if (!accepted) return;
  if (!request.drained.empty()) return drain(drained, sender, now);
  if (state_ != State::running) return;
  const std::string why = "restart asked for by " + sender;
  record(told::asked(attempt_, why));
  requests_.note_restart(why);
  changes_.push_back(why);
  begin_stop({attempt_}, now);
}

// Judges a request by what is known so far. `host`: the one that is to be drained, with its places; empty:
// none.
RestartReply Coordinator::judge_request(const std::string& host,
                                        const std::vector<AgentIndex>& places) const {
  const bool ending = final_cause_ || late_cause_ || checkpoints_.holds_end() ||
                      (changes_.empty() && first_failure_ && !decide_restart().restart);
  if (state_ == State::stopping && ending) return decline("the job is ending", "");
  const bool restarting = state_ != State::running && (takeover_ || attempt_.value > 0);
  const bool before = state_ != State::running && state_ != State::stopping;
  if (host.empty() && (restarting || state_ == State::stopping))
    return accept("the job is restarting already");
  if (before && (host.empty() || state_ == State::gathering))
    return decline("the workers do not run yet; the job is " + describe_phase(), "ask again once they do");
  if (host.empty())
    return accept(fmt::format("all workers are being stopped; attempt {} follows", attempt_.value + 1));

  std::set<AgentIndex> gone = requests_.drained();
  const auto is_here = [this](AgentIndex agent) { return members_.is_here(agent); };
  if (places.empty()) {
    return decline(fmt::format("{} is not a node of this job", host),
                   "the nodes of the job: " + name_hosts(members_));
  }
  if (std::ranges::none_of(places, is_here)) return accept(host + " has left the job already");
  if (std::ranges::all_of(places, [&](AgentIndex agent) { return !is_here(agent) || gone.contains(agent); }))
    return accept(host + " is being drained already");
  if (std::ranges::find(places, settings_.own) != places.end()) {
    return decline(host + " coordinates the job and cannot be drained",
                   "stop the job, and start it without this node");
  }
  gone.insert(places.begin(), places.end());
  const int left = members_.nodes_here(gone);
  if (!settings_.elastic)
    return decline(fmt::format("no other node can take the place of {}", host),
                   "a job that is started with --nnodes MIN:MAX or --spares goes on without a drained node");
  if (left < settings_.elastic->least) {
    return decline(
        fmt::format("no other node can take the place of {}: {} would be left, and the job needs {}", host,
                    count_of(left, "node"), settings_.elastic->least),
        "start the job with a lower MIN in --nnodes MIN:MAX, or with more --spares");
  }
  const bool took_part =
      std::ranges::any_of(places, [this](AgentIndex agent) { return members_.takes_part(agent); });
  return accept(took_part ? fmt::format("all workers start again without {}", host)
                          : fmt::format("{}, which runs no workers, leaves the job", host));
}

// Lets the agents of a host go: at once where they run no workers, else once all workers have stopped.
void Coordinator::drain(const std::vector<AgentIndex>& places, const std::string& sender, TimePoint now) {
  for (const AgentIndex agent : places) {
    if (state_ == State::finished || !members_.is_here(agent) || requests_.drains(agent)) continue;
    const std::string why = fmt::format("{} is drained, as asked by {}", host_of(agent), sender);
    if (!may_run_workers(agent)) {
      const bool told = members_.takes_part(agent) ? state_ != State::running : settings_.elastic->spares > 0;
      if (!told) actions_.push_back(ShowNotice{{why, {}}});
      part_with(agent, why, now, /*drained=*/true);
      continue;
    }
    requests_.note_drain(agent, why);
    if (std::ranges::find(changes_, why) == changes_.end()) {
      record(told::asked(attempt_, why));
      changes_.push_back(why);
    }
    if (state_ == State::running) begin_stop({attempt_}, now);
  }
}

// Lets an agent go that runs no workers. `sentence`: what is said of it. Until its connection ends it may not
// know that, and could go on with others.
void Coordinator::part_with(AgentIndex agent, const std::string& sentence, TimePoint now, bool drained) {
  const ConnectionId connection = *members_.at(agent).connection;
  Finish finish{{report::Cause::Kind::agent_lost, {}, 0, host_of(agent), sentence}, {}, {}, false};
  finish.drained = drained;
  actions_.push_back(SendTo{connection, std::move(finish)});
  actions_.push_back(CloseConnection{connection});
  parted_[connection] = {agent, quorum_.number()};
  forget(agent, sentence, Left::told, now);
}

// Lets an agent go that has stopped its workers and is to be drained, or has found its node unfit, where the
// others can do without it. False if it stays, or if the job ends anyway.
bool Coordinator::let_go(ConnectionId connection, const Stopped& stopped, TimePoint now) {
  const AgentIndex agent = members_.here().at(connection);
  const bool drained = requests_.drains(agent);
  if ((stopped.unfit.what.empty() && !drained) || final_cause_ || late_cause_) return false;
  const bool may = settings_.elastic && connection != k_local_connection &&
                   members_.nodes_here() > settings_.elastic->least;
  if (!stopped.unfit.what.empty()) note_unfit(agent, stopped.unfit, may);
  const std::string drain = drained ? requests_.take_drain(agent) : "";
  if (may && drained) {
    part_with(agent, drain, now, /*drained=*/stopped.unfit.what.empty());
  } else if (may) {
    part_with(agent, fmt::format("lost {}: it is unfit for another attempt", name_of(agent)), now);
  } else if (drained) {
    std::ranges::replace(
        changes_, drain,
        fmt::format("{} was to be drained and stays, as no other node can take its place", host_of(agent)));
  }
  return may;
}

// Says that a node is unfit, and what follows: it leaves, it stays, or the job ends instead of the restart.
void Coordinator::note_unfit(AgentIndex agent, const Unfit& unfit, bool leaves) {
  const bool stays = !leaves && (unfit.may_stay || !changes_.empty());
  const char* const follows = leaves  ? ""
                              : stays ? "; it stays, as no other node can take its place"
                                      : ", and no other node can take its place";
  const std::string what = fmt::format("{} is unfit for another attempt: {}{}", host_of(agent),
                                       printable(unfit.what, 512), follows);
  const std::string remedy = printable(unfit.remedy, 512);
  record(told::unfit(attempt_, host_of(agent), what, remedy));
  if (leaves || stays) return actions_.push_back(ShowNotice{{what, remedy}});
  late_cause_ = {report::Cause::Kind::launcher_failed, {}, 0, host_of(agent), what, remedy, k_exit_unfit};
  remarks_.push_back(what);
}

// Has the spares look at their nodes before one of them is needed.
void Coordinator::look_at_spares() {
  for (const AgentIndex agent : members_.waiting()) {
    if (agent == settings_.own) continue;
    at(agent).looks = true;
    send(agent, Look{attempt_});
  }
}

void Coordinator::handle(ConnectionId connection, const Looked& looked, TimePoint now) {
  const AgentIndex agent = members_.here().at(connection);
  if (!std::exchange(at(agent).looks, false)) return;
  if (!looked.unfit.what.empty()) {
    note_unfit(agent, looked.unfit, /*leaves=*/true);
    part_with(agent, fmt::format("lost {}: it is unfit for another attempt", name_of(agent)), now);
  }
  if (state_ == State::stopping) check_stopped(now);
}

}  // namespace ddprun::rendezvous
