// A launch played for the coordinator by its tests: agent i speaks through connection i.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::test::coordinator {

using namespace rendezvous;
using namespace std::chrono_literals;

inline const TimePoint k_start{};

inline CoordinatorSettings settings(int agents, int max_restarts = 0) {
  CoordinatorSettings result;
  result.agents = agents;
  for (int i = 1; i <= agents; ++i) result.peers.push_back("n" + std::to_string(i));
  result.version = "0.1.0";
  result.max_restarts = max_restarts;
  result.join_timeout = 60s;
  result.stop_timeout = 40s;
  result.probe_timeout = 30s;
  result.addresses = {"10.0.0.1", "10.1.0.1"};
  result.port = 20480;
  return result;
}

inline Join join_of(int agent, int agents, const std::string& reached = "10.0.0.1", int workers = 2) {
  Join join;
  join.announcement.agent = {agent};
  join.announcement.host = "n" + std::to_string(agent + 1);
  join.announcement.node = NodeIndex{agent};
  join.announcement.workers = workers;
  join.version = "0.1.0";
  join.reached = agent == 0 ? "" : reached;
  join.agents = agents;
  return join;
}

inline report::Failure failure_of(int rank, int attempt = 0) {
  report::Failure failure;
  failure.attempt = {attempt};
  failure.rank = {rank};
  failure.host = "n" + std::to_string(rank / 2 + 1);
  failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  return failure;
}

// What the coordinator does is collected.
struct Play {
  explicit Play(CoordinatorSettings chosen)
      : agents(chosen.agents), restarts(chosen.max_restarts), coordinator(std::move(chosen), k_start) {}

  void take(Coordinator::Actions actions) {
    for (CoordinatorAction& action : actions) log.push_back(std::move(action));
  }
  void say(int agent, const AgentMessage& message) { take(coordinator.on_message({agent}, message, now)); }
  void lose(int agent, const std::string& why) {
    lost.insert(agent);
    take(coordinator.on_closed({agent}, why, now));
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    while (coordinator.deadline() && *coordinator.deadline() <= now) take(coordinator.on_time(now));
  }
  void all_join() {
    for (int agent = 0; agent < agents; ++agent) {
      Join join = join_of(agent, agents);
      join.announcement.max_restarts = restarts;
      say(agent, join);
    }
  }
  void store_ready(int attempt, int port = 41000) { take(coordinator.on_store_ready({attempt}, port, now)); }
  void run() {
    all_join();
    store_ready(0);
    log.clear();
  }
  void all_stopped(int attempt) {
    for (int agent = 0; agent < agents; ++agent) {
      if (!lost.contains(agent)) say(agent, Stopped{{attempt}, {}});
    }
  }

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const CoordinatorAction& action : log) {
      if (const T* wanted = std::get_if<T>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  template <class T>
  std::vector<std::pair<int, T>> sent() const {
    std::vector<std::pair<int, T>> found;
    for (const SendTo& send : all<SendTo>()) {
      if (const T* wanted = std::get_if<T>(&send.message)) found.push_back({send.connection.value, *wanted});
    }
    return found;
  }
  report::Cause end() const {
    const auto ends = all<EndJob>();
    REQUIRE(ends.size() == 1);
    REQUIRE(std::holds_alternative<EndJob>(log.back()));
    return ends[0].cause;
  }
  std::string end_text() const { return end().detail; }

  int agents;
  int restarts;
  TimePoint now = k_start;
  Coordinator coordinator;
  std::vector<CoordinatorAction> log;
  std::set<int> lost;
};

}  // namespace ddprun::test::coordinator
