// A coordinator of two agents whose peers have the key and say anything, in any order and at any time: it
// ends once at most, with success only where all succeeded, sends nothing that cannot be read, and shows
// nothing that drives a terminal.
//
// Input: commands of a byte whose low bits choose what happens; its arguments follow.
#include <array>
#include <set>

#include "promise.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "report/report.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

constexpr int k_agents = 2;
constexpr int k_peers = 4;  // connections at a time; the first is the coordinator's own agent

// A fixed number of nodes, a range, or a spare.
std::optional<rendezvous::ElasticNodes> elastic_nodes(int kind) {
  switch (kind % 5) {
    case 1:
      return rendezvous::ElasticNodes{1, 0, Milliseconds{30000}, options::Grow::now};
    case 2:
      return rendezvous::ElasticNodes{1, 0, std::nullopt, options::Grow::at_restart};
    case 3:
      return rendezvous::ElasticNodes{1, 1, Milliseconds{30000}, options::Grow::now};
    case 4:
      return rendezvous::ElasticNodes{2, 0, std::nullopt, options::Grow::never};
    default:
      return std::nullopt;
  }
}

rendezvous::CoordinatorSettings settings(int kind) {
  rendezvous::CoordinatorSettings of;
  of.elastic = elastic_nodes(kind);
  of.agents = k_agents;
  of.peers = {"n1", "n2"};
  of.version = "0.1.0";
  of.run_id = "29";
  of.launch_id = "abc";
  of.max_restarts = 1;
  of.addresses = {"10.0.0.1", "10.1.0.1"};
  of.port = 29400;
  of.record = true;
  of.live = true;
  of.connects = true;
  if (kind >= 128) of.checkpoints = rendezvous::CheckpointSettings{"/shared", Milliseconds{20000}, {}, {}};
  return of;
}

plan::Announcement announce(int agent) {
  plan::Announcement of;
  of.agent = {agent};
  of.host = agent == 0 ? "n1" : "n2";
  of.node = NodeIndex{agent};
  of.workers = 2;
  of.max_restarts = 1;
  of.addresses = {agent == 0 ? "10.0.0.1" : "10.0.0.2"};
  of.checkpoint_door = "30000/cafe";
  return of;
}

class Scene {
 public:
  explicit Scene(fuzz::Input input) : input_(input) {
    for (int peer = 0; peer < k_peers; ++peer) connections_[at(peer)] = {next_++};
  }

  void play() {
    while (!input_.empty()) step();
  }

 private:
  using Actions = rendezvous::Coordinator::Actions;

  static std::size_t at(int peer) { return static_cast<std::size_t>(peer); }

  void step() {
    const int command = input_.byte();
    const int peer = input_.byte() % k_peers;
    const rendezvous::ConnectionId connection = connections_[at(peer)];
    switch (command % 12) {
      case 0:
        return say(peer, rendezvous::Join{announce(peer % k_agents), "0.1.0", peer == 0 ? "" : "10.0.0.1",
                                          k_agents});
      case 1:
        return say_bytes(peer);
      case 2:
        if (peer != 0) close(peer, "the connection ended");
        return;
      case 3:
        return pass_time(Milliseconds{input_.number() * 20});
      case 4:
        return check(coordinator_.on_store_ready({input_.byte() % 3}, 1 + input_.number() % 65535, now_));
      case 5:
        return check(coordinator_.on_store_failed({input_.byte() % 3}, "no port", now_));
      case 6:
        return say(peer, rendezvous::JobQuestion{input_.byte() % 2 == 0});
      case 7:
        return say(peer, rendezvous::AttemptSucceeded{{input_.byte() % 3}});
      case 8:
        return say(peer, rendezvous::AttemptFailed{{input_.byte() % 3}, failure()});
      case 9:
        return say(peer, rendezvous::Stopped{{input_.byte() % 3}, {}, {}});
      case 10:
        check(coordinator_.on_connections(input_.byte(), now_));
        return check(coordinator_.on_refused("10.0.0.9", "no key", now_));
      default:
        return check(
            coordinator_.on_store_client({{"10.0.0.2", 40000 + connection.value, "10.0.0.1", 41000}}, now_));
    }
  }

  report::Failure failure() {
    report::Failure of;
    of.rank = {input_.byte() % 6};
    of.host = "n2";
    of.program = "python";
    of.status = {ExitStatus::Kind::exited, 1 + input_.byte() % 255, {}, false};
    of.last_lines = {"last"};
    return of;
  }

  void say_bytes(int peer) {
    const auto length = static_cast<std::size_t>(input_.number());
    const auto message = rendezvous::decode_agent_message(input_.piece(length));
    if (std::holds_alternative<rendezvous::AgentMessage>(message))
      return say(peer, std::get<rendezvous::AgentMessage>(message));
    if (peer != 0) close(peer, "its message cannot be read");
  }

  // An agent's first word is Join (net/coordinator_service.cpp), and the own agent says it once.
  void say(int peer, const rendezvous::AgentMessage& message) {
    const bool join = std::holds_alternative<rendezvous::Join>(message);
    if (join && (joined_.contains(peer) || (peer == 0 && ended_))) return;
    if (!join && !joined_.contains(peer)) return;
    if (join && peer == 0 && std::get<rendezvous::Join>(message).announcement.agent != AgentIndex{0}) return;
    if (peer == 0 && !join && !is_own_kind(message)) return;
    joined_.insert(peer);
    if (const auto* told = std::get_if<rendezvous::AttemptSucceeded>(&message))
      succeeded_.emplace(peer, told->attempt);
    check(coordinator_.on_message(connections_[at(peer)], message, now_));
  }

  // The own agent's messages do not pass through the codec, and are what they should be.
  static bool is_own_kind(const rendezvous::AgentMessage& message) {
    return std::holds_alternative<rendezvous::AttemptSucceeded>(message) ||
           std::holds_alternative<rendezvous::Stopped>(message);
  }

  void close(int peer, const std::string& why) {
    const rendezvous::ConnectionId gone = connections_[at(peer)];
    connections_[at(peer)] = {next_++};
    joined_.erase(peer);
    closed_.insert(gone);
    check(coordinator_.on_closed(gone, why, now_));
  }

  void pass_time(Milliseconds passed) {
    now_ += passed;
    for (int rounds = 0; coordinator_.deadline() && *coordinator_.deadline() <= now_ && !ended_; ++rounds) {
      require(rounds < 20);  // it would be called again and again
      check(coordinator_.on_time(now_));
    }
  }

  void check(const Actions& actions) {
    std::set<rendezvous::ConnectionId> dropped;
    for (const rendezvous::CoordinatorAction& action : actions) {
      require(!ended_ || !std::holds_alternative<rendezvous::EndJob>(action));
      std::visit([this](const auto& each) { look_at(each); }, action);
      if (const auto* close = std::get_if<rendezvous::CloseConnection>(&action))
        dropped.insert(close->connection);
    }
    for (int peer = 1; peer < k_peers; ++peer) {
      if (dropped.contains(connections_[at(peer)])) close(peer, "it was closed");
    }
  }

  void look_at(const rendezvous::SendTo& send) {
    require(!closed_.contains(send.connection));
    const std::string frame = rendezvous::encode(send.message);
    require(frame.size() <= rendezvous::k_frame_header + rendezvous::k_max_frame);
    const auto read = rendezvous::decode_coordinator_message(frame.substr(rendezvous::k_frame_header));
    require(std::holds_alternative<rendezvous::CoordinatorMessage>(read));
    if (const auto* finish = std::get_if<rendezvous::Finish>(&send.message)) show(*finish);
    if (const auto* shown = std::get_if<rendezvous::JobShown>(&send.message))
      fuzz::require_printable(status::render_status_table(shown->job, shown->job));
  }
  static void show(const rendezvous::Finish& finish) {
    fuzz::require_printable(report::render_report(finish.cause, {0, 1, {}}));
    fuzz::require_printable(report::render_others(finish.others, finish.victims));
    fuzz::require_printable(report::render_restarts(finish.restarts, finish.cause));
  }
  void look_at(const rendezvous::ShowRestart& restart) {
    fuzz::require_printable(
        report::render_restart(restart.cause, restart.restarts, restart.max_restarts, restart.delay));
    succeeded_.clear();
  }
  void look_at(const rendezvous::EndJob& end) {
    ended_ = true;
    fuzz::require_printable(report::render_report(end.cause, {0, 1, {}}));
    const int code = report::exit_code_of(end.cause);
    require(code >= 0 && code <= 255);
    require((code == 0) == (end.cause.kind == report::Cause::Kind::success));
    const std::size_t least = settings_.elastic ? 1 : k_agents;
    if (code == 0) require(succeeded_.size() >= least);
  }
  template <class Other>
  void look_at(const Other&) {}

  fuzz::Input input_;
  TimePoint now_{};
  rendezvous::CoordinatorSettings settings_ = settings(input_.byte());
  rendezvous::Coordinator coordinator_{settings_, now_};
  int next_ = 0;
  std::array<rendezvous::ConnectionId, k_peers> connections_;
  std::set<int> joined_;
  std::set<std::pair<int, Attempt>> succeeded_;
  std::set<rendezvous::ConnectionId> closed_;
  bool ended_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Scene(fuzz::Input(data, size)).play();
  return 0;
}
