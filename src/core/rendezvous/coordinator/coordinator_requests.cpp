// Restarts that are asked for from outside: --restart and --drain.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_events.hpp"

namespace ddprun::rendezvous {

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
