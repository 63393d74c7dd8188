// Whom the coordinator has before it: places, failures of those that only came to tell one, names.
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/text.hpp"
#include "ddprun/rendezvous/coordinator.hpp"
#include "ddprun/rendezvous/launch_failure.hpp"
#include "ddprun/rendezvous/waiting_text.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr Milliseconds k_others_word{500};  // after the first that cannot start

// By a loopback address: two agents of one host, as people start them by hand.
bool reached_here(const std::string& reached) {
  const std::string plain = plain_address(reached);
  return plain.starts_with("127.") || plain == "::1";
}

}  // namespace

std::optional<AgentIndex> Coordinator::free_place() const {
  const auto free =
      std::find_if(agents_.begin(), agents_.end(), [](const Agent& a) { return !a.connection; });
  if (free == agents_.end()) return std::nullopt;
  return AgentIndex{static_cast<int>(free - agents_.begin())};
}

// Nothing where it has none, or another agent has it by right.
std::optional<AgentIndex> Coordinator::find_place(const plan::Announcement& announcement) {
  const auto free = free_place();
  if (!announcement.agent) return free;
  Agent& holder = at(*announcement.agent);
  if (!holder.connection) return announcement.agent;
  if (!holder.by_arrival || !free) return std::nullopt;
  const ConnectionId moved = *holder.connection;
  at(*free) = std::exchange(holder, {});
  place_agent(*free, moved, *at(*free).announcement);
  return announcement.agent;
}

void Coordinator::place_agent(AgentIndex place, ConnectionId connection, plan::Announcement announcement) {
  Agent& agent = at(place);
  if (agent.by_arrival) {
    announcement.agent = place;
    announcement.node = NodeIndex{place.value};
  }
  agent.announcement = std::move(announcement);
  agent.connection = connection;
  by_connection_[connection] = place;
}

// ---- failed starts

// The others are about to join too, as they were started together.
void Coordinator::note_failed_start(TimePoint now) {
  state_deadline_ = std::min(*state_deadline_, now + k_others_word);
}

bool Coordinator::any_failed_start() const {
  return std::any_of(agents_.begin(), agents_.end(),
                     [](const Agent& agent) { return agent.connection && agent.failure; });
}

void Coordinator::fail_start() {
  std::vector<FailedStart> failed;
  std::vector<std::string> well;
  for (const Agent& agent : agents_) {
    if (!agent.connection) continue;
    const std::string host = printable(agent.announcement->host);
    if (agent.failure) {
      failed.push_back({host, *agent.failure});
    } else {
      well.push_back(host);
    }
  }
  finish(describe_failed_start(failed, well));
}

// ---- addresses

// Agents of the host that announced the address, one of each host; all where nobody did.
std::set<ConnectionId> Coordinator::agents_to_ask(const std::string& client) const {
  std::set<ConnectionId> asked;
  std::set<std::string> hosts;
  for (const auto& [connection, index] : by_connection_) {
    const plan::Announcement& announced = *at(index).announcement;
    const bool has_it = std::ranges::find(announced.addresses, client) != announced.addresses.end();
    if (has_it && hosts.insert(announced.host).second) asked.insert(connection);
  }
  if (!asked.empty()) return asked;
  for (const auto& [connection, index] : by_connection_) asked.insert(connection);
  return asked;
}

// Nothing is asked after the end, when there is no store any more.
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

std::vector<int> Coordinator::missing() const {
  std::vector<int> absent;
  for (int index = 0; index < settings_.agents; ++index) {
    if (!at({index}).connection) absent.push_back(index);
  }
  return absent;
}

// On the coordinator's own host, whose word about its addresses proves nothing to others.
bool Coordinator::is_beside(const Agent& agent) const {
  const plan::Announcement& own = *agents_.front().announcement;
  const plan::Announcement& other = *agent.announcement;
  if (reached_here(agent.reached) && same_host(own.host, other.host)) return true;
  if (own.node && other.node) return *own.node == *other.node;
  return same_host(own.host, other.host);
}

std::vector<AddressWitness> Coordinator::witnesses() const {
  std::vector<AddressWitness> all;
  for (const AgentIndex index : participants_) {
    const Agent& agent = at(index);
    all.push_back(
        {agent.announcement->host, is_beside(agent), agent.reached, agent.probed, agent.probe_failures});
  }
  return all;
}

std::string Coordinator::host_of(AgentIndex agent) const {
  const auto index = static_cast<std::size_t>(agent.value);
  if (at(agent).announcement) return printable(at(agent).announcement->host);
  if (index < settings_.peers.size() && !settings_.peers[index].empty()) return settings_.peers[index];
  return fmt::format("number {}", agent.value);
}

std::string Coordinator::name_of(AgentIndex agent) const {
  const auto position = at(agent).position;
  if (!position) return host_of(agent);
  std::vector<int> ranks;
  for (const plan::RankAssignment& assigned : world_.assignments[*position].workers)
    ranks.push_back(assigned.rank.value);
  return fmt::format("{} ({})", host_of(agent), describe_ranks(std::move(ranks)));
}

supervise::Cause Coordinator::failed_here(std::string detail) const {
  return {supervise::Cause::Kind::launcher_failed, {}, 0, host_of({0}), std::move(detail)};
}

}  // namespace ddprun::rendezvous
