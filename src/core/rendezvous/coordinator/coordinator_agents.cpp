#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

// The agents that the coordinator knows: their places, their names, and failures of those that join only to
// report one.

namespace {

constexpr Milliseconds k_others_word{500};  // after the first that cannot start

// Reports whether the coordinator was reached at a loopback address: two agents of one host, started by hand.
bool reached_here(const std::string& reached) {
  const std::string plain = plain_address(reached);
  return plain.starts_with("127.") || plain == "::1";
}

}  // namespace

void Coordinator::enter(AgentIndex place, ConnectionId connection, const Join& join, TimePoint now) {
  members_.enter(place, connection, join.announcement);
  at(place) = {};
  at(place).reached = join.reached;
  at(place).failure = join.failure;
  note_heard(connection, now);
  checkpoints_.note(place, announced(place).host, join.checkpoints);
  record(told::joined(host_of(place), announced(place).workers));
}

// ---- failed starts

// Shortens the wait after a failed start: the others are about to join too, as they were started together.
void Coordinator::note_failed_start(TimePoint now) {
  state_deadline_ = std::min(*state_deadline_, now + k_others_word);
}

bool Coordinator::any_failed_start() const {
  return std::ranges::any_of(members_.here(),
                             [this](const auto& entry) { return at(entry.second).failure.has_value(); });
}

void Coordinator::fail_start() {
  std::vector<FailedStart> failed = without_;
  std::vector<std::string> well;
  for (int place = 0; place < settings_.agents; ++place) {
    if (!members_.is_here({place})) continue;
    const std::string host = host_of({place});
    if (at({place}).failure) {
      failed.push_back({host, *at({place}).failure});
    } else {
      well.push_back(host);
    }
  }
  finish(describe_failed_start(failed, well));
}

// ---- addresses

// Returns the agents of the host that announced the address, one of each host; all if no host did.
std::set<ConnectionId> Coordinator::agents_to_ask(const std::string& client) const {
  std::set<ConnectionId> asked;
  std::set<std::string> hosts;
  for (const auto& [connection, index] : members_.here()) {
    const std::vector<std::string>& addresses = announced(index).addresses;
    const bool has_it = std::ranges::find(addresses, client) != addresses.end();
    if (has_it && hosts.insert(announced(index).host).second) asked.insert(connection);
  }
  if (!asked.empty()) return asked;
  for (const auto& [connection, index] : members_.here()) asked.insert(connection);
  return asked;
}

// Asks no agent once the job has ended: there is no store any more.
Coordinator::Actions Coordinator::on_store_client(const ClientQuestion& question, TimePoint now) {
  std::set<ConnectionId> asked;
  if (state_ != State::finished) asked = agents_to_ask(question.connection.client);
  for (const ConnectionId connection : asked) actions_.push_back(SendTo{connection, question});
  if (asked.empty()) {
    actions_.push_back(JudgeClient{{question.connection, Holder::elsewhere}});
  } else {
    questions_.ask(question.connection, std::move(asked), now);
  }
  return std::exchange(actions_, {});
}

void Coordinator::handle(ConnectionId connection, const ClientVerdict& answer, TimePoint) {
  const auto verdict = questions_.note(connection, answer);
  if (verdict) actions_.push_back(JudgeClient{*verdict});
}

// ---- names

// Reports whether the agent is on the coordinator's own host, whose word about its addresses proves nothing
// to others.
bool Coordinator::is_beside(AgentIndex agent) const {
  const plan::Announcement& own = announced(settings_.own);
  const plan::Announcement& other = announced(agent);
  if (reached_here(at(agent).reached) && same_host(own.host, other.host)) return true;
  if (own.node && other.node) return *own.node == *other.node;
  return same_host(own.host, other.host);
}

std::vector<AddressWitness> Coordinator::witnesses() const {
  std::vector<AddressWitness> all;
  for (const AgentIndex index : members_.participants()) {
    const Agent& agent = at(index);
    all.push_back(
        {announced(index).host, is_beside(index), agent.reached, agent.probed, agent.probe_failures});
  }
  return all;
}

std::string Coordinator::disagreement(const Join& join) const {
  const std::string host = printable(join.announcement.host);
  const std::string here = host_of(settings_.own);
  if (join.version != settings_.version) {
    return fmt::format("{} runs ddprun {} and {} runs ddprun {}; install the same version on all nodes", host,
                       printable(join.version), here, settings_.version);
  }
  if (join.agents != settings_.agents) {
    return fmt::format(
        "{} counts {} ddprun processes in this job and {} counts {}; start all of them in one step, "
        "or with the same --nnodes",
        host, join.agents, here, settings_.agents);
  }
  if (!join.announcement.agent) return {};
  const int agent = join.announcement.agent->value;
  if (agent < 0 || agent >= settings_.agents) {
    return fmt::format("{} announced itself as number {} of {}; give each node its own --node-rank below {}",
                       host, agent, settings_.agents, settings_.agents);
  }
  const auto index = static_cast<std::size_t>(agent);
  const std::string expected = index < settings_.peers.size() ? settings_.peers[index] : "";
  if (!expected.empty() && !same_host(expected, join.announcement.host)) {
    return fmt::format(
        "{} joined as number {}, which is {} in the host list that {} has; check that all nodes see the "
        "same list",
        host, agent, expected, here);
  }
  return {};
}

std::string Coordinator::host_of(AgentIndex agent) const { return name_host(members_, settings_, agent); }

// Returns the agent's assignment, or nullptr if it takes no part.
const plan::Assignment* Coordinator::share_of(AgentIndex agent) const {
  const auto position = members_.at(agent).position;
  return position && *position < world_.assignments.size() ? &world_.assignments[*position] : nullptr;
}

bool Coordinator::runs_rank(AgentIndex agent, GlobalRank rank) const {
  const plan::Assignment* const share = share_of(agent);
  return share != nullptr &&
         std::ranges::any_of(share->workers, [&](const auto& assigned) { return assigned.rank == rank; });
}

std::string Coordinator::name_of(AgentIndex agent) const {
  const plan::Assignment* const share = share_of(agent);
  if (share == nullptr || settings_.independent) return host_of(agent);
  return fmt::format("{} ({})", host_of(agent), describe_ranks(plan::ranks_of(*share)));
}

report::Cause Coordinator::failed_here(std::string detail) const {
  return {report::Cause::Kind::launcher_failed, {}, 0, host_of(settings_.own), std::move(detail)};
}

// Answers to a slow rank, and from ranks that hang (job_watch.hpp).

// Gives the ranks of a slow rank's node to a spare (--on-slow). Returns what follows, for the notice.
std::string Coordinator::replace_slow(int rank, TimePoint now) {
  using enum options::OnSlow;
  const options::OnSlow action = settings_.hang.on_slow.value;
  if (action == report) return {};
  const auto& all = members_.participants();
  const auto owner =
      std::ranges::find_if(all, [&](AgentIndex agent) { return runs_rank(agent, GlobalRank{rank}); });
  if (owner == all.end() || *owner == settings_.own)
    return "; its node coordinates the job and is not replaced";
  if (!members_.set_aside(*owner)) return "; no spare can take the place of its node";
  if (action == replace_at_restart) return "; a spare takes the place of its node at the next restart";
  changes_.push_back(fmt::format("{} is replaced, as its rank {} is slow", host_of(*owner), rank));
  begin_stop({attempt_}, now);
  return "; a spare takes the place of its node";
}

// Fails the attempt as if the rank that the others wait for had failed. If no restart is wanted, the cause is
// final.
void Coordinator::fail_hung(const status::Verdict& verdict, TimePoint now) {
  report::Failure failure;
  failure.attempt = attempt_;
  failure.rank = GlobalRank{verdict.rank};
  failure.local_rank = LocalRank{verdict.local_rank};
  failure.host = verdict.host;
  failure.pid = verdict.pid;
  failure.program = settings_.program;
  failure.status = {ExitStatus::Kind::hung, 0, StartStage::process, false, verdict.reason};
  failure.message = verdict.places;
  failure.hint = verdict.hint_after;
  failure.gpu = verdict.gpu;
  first_failure_ = failure;
  failed_at_ = now;
  const auto& action = settings_.hang.action;
  if (action && action->value == options::OnHang::stop)
    final_cause_ = report::Cause{report::Cause::Kind::worker_failed, failure, 0, {}, {}};
  begin_stop({attempt_}, now);
}

// Checkpoints in the nodes' memory, and the end of the job while the newest one is being flushed.

void Coordinator::handle(ConnectionId connection, const CheckpointsHeld& message, TimePoint) {
  const AgentIndex agent = members_.here().at(connection);
  checkpoints_.note(agent, announced(agent).host, message.held);
}

// Waits as if agents were still stopping their workers; none is any more.
void Coordinator::hold_end() {
  state_ = State::stopping;
  state_deadline_.reset();
  for (Agent& agent : agents_) {
    agent.stopped = true;
    agent.looks = false;
  }
}

void Coordinator::settle(TimePoint now) {
  if (state_ != State::finished) {
    for (auto& [agent, order] : checkpoints_.take_orders(members_, state_ == State::running, now))
      send(agent, CheckpointOrder{std::move(order)});
    for (const auto& [step, folder] : checkpoints_.take_news())
      record(told::checkpoint(attempt_, step, folder));
    const auto end = checkpoints_.take_end(job_end_, now);
    for (allocation::Notice& notice : checkpoints_.take_notices())
      actions_.push_back(ShowNotice{std::move(notice)});
    if (end) finish(*end);
  }
  update_status(now);
}

}  // namespace ddprun::rendezvous
