// Plays a self-launch: plans, events as calls, and what follows from them as words.
#pragma once

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "selflaunch/self_launch.hpp"

namespace ddprun::test {

// An ssh for every host, n1 and so on.
inline selflaunch::SelfLaunchPlan by_ssh(int hosts) {
  selflaunch::SelfLaunchPlan plan;
  plan.remote_launcher = sourced(std::string("ssh"), "default");
  plan.task = selflaunch::TaskWay::input;
  for (int i = 1; i <= hosts; ++i) {
    plan.hosts.push_back("n" + std::to_string(i));
    plan.commands.push_back({plan.hosts.back(), {"ssh", plan.hosts.back(), "ddprun"}, true});
  }
  return plan;
}

// One srun for all hosts.
inline selflaunch::SelfLaunchPlan by_srun(int hosts) {
  selflaunch::SelfLaunchPlan plan = by_ssh(hosts);
  plan.remote_launcher.value = "srun";
  plan.task = selflaunch::TaskWay::environment;
  plan.commands = {{"", {"srun", "ddprun"}, false}};
  return plan;
}

// A pbsdsh for every host, which ends with 0 whatever its task ends with.
inline selflaunch::SelfLaunchPlan by_pbsdsh(int hosts) {
  selflaunch::SelfLaunchPlan plan = by_ssh(hosts);
  plan.remote_launcher.value = "pbsdsh";
  plan.task = selflaunch::TaskWay::lifeline;
  plan.passes_exit_code = false;
  for (selflaunch::RemoteCommand& command : plan.commands)
    command.words = {"pbsdsh", "-n", "1", "/opt/ddprun", "--started-by", "pbsdsh"};
  return plan;
}

inline selflaunch::SelfLaunchSettings settings() {
  selflaunch::SelfLaunchSettings result;
  result.stop_signals = {SIGTERM, SIGINT};
  result.shutdown_timeout = Milliseconds{30000};
  result.port = 40123;
  return result;
}

struct Describe {
  std::string operator()(const selflaunch::Start& a) const {
    return "start " + std::to_string(a.remote_launcher);
  }
  std::string operator()(const selflaunch::SignalRemoteLauncher& a) const {
    return "signal " + std::to_string(a.remote_launcher) + " with " + std::to_string(a.number);
  }
  std::string operator()(const selflaunch::SignalAgents& a) const {
    return "signal agents with " + std::to_string(a.signal.number) + (a.signal.hurry ? ", hurry" : "") +
           (a.signal.whole_tree ? ", whole tree" : "") + (a.signal.explained ? ", explained" : "");
  }
  std::string operator()(const selflaunch::Judge& a) const {
    return "judge " + std::to_string(a.number) + (a.from_above ? " from above" : "");
  }
  std::string operator()(const selflaunch::Say& a) const {
    return a.text + (a.hint.empty() ? "" : "; hint: " + a.hint);
  }
  std::string operator()(const selflaunch::Drain& a) const {
    return a.limit ? "drain for " + describe_duration(*a.limit) : "drain";
  }
  std::string operator()(const selflaunch::CountLosses&) const { return "count losses"; }
  std::string operator()(const selflaunch::Leave& a) const { return "leave with " + std::to_string(a.code); }
};

using Words = std::vector<std::string>;

inline bool is_detail(const selflaunch::SelfLaunchAction& action) {
  const auto* say = std::get_if<selflaunch::Say>(&action);
  return say != nullptr && say->level == selflaunch::Say::Level::detail;
}

// Plays a launch. What the machine does is collected; said() returns it once, without the details.
struct Play {
  explicit Play(selflaunch::SelfLaunchPlan chosen, const selflaunch::SelfLaunchSettings& given = settings())
      : plan(std::move(chosen)), launch(plan, given) {
    take(launch.start(now));
  }
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  void take(const selflaunch::SelfLaunch::Actions& actions) {
    log.insert(log.end(), actions.begin(), actions.end());
  }
  rendezvous::lifeline::Hello hello(int place) const {
    return {place, plan.hosts.at(static_cast<std::size_t>(place)), false};
  }

  void connect(int place) { take(launch.on_agent(hello(place), now)); }
  void end_agent(int place, int code, bool started = true) {
    take(launch.on_agent_ended(hello(place), {code, started}, now));
  }
  void lose(int place) { take(launch.on_agent_lost(hello(place), "reset", now)); }
  void end(std::size_t remote_launcher, const ExitStatus& status, const std::string& words = {}) {
    take(launch.on_remote_launcher_ended(remote_launcher, status, words, now));
  }
  void end(std::size_t remote_launcher, int code, const std::string& words = {}) {
    end(remote_launcher, ExitStatus{ExitStatus::Kind::exited, code, {}, false}, words);
  }
  void signal(int number, bool from_person = true) {
    take(launch.on_signal({number, from_person, true, !from_person}, now));
  }
  void judged(int number, bool pass_on = true) { take(launch.on_verdict({number, pass_on, !pass_on}, now)); }
  void stop(int number = SIGTERM) {
    signal(number);
    judged(number);
  }
  void pass(Milliseconds time, bool busy = false) {
    const TimePoint until = now + time;
    while (launch.deadline() && *launch.deadline() <= until) {
      REQUIRE(*launch.deadline() >= now);
      now = *launch.deadline();
      take(launch.on_time(now, busy));
      ++waits;
      REQUIRE((!launch.deadline() || *launch.deadline() > now));
    }
    now = until;
  }
  void connect_all() {
    for (int place = 0; place < static_cast<int>(plan.hosts.size()); ++place) connect(place);
  }
  void drained(const std::vector<std::string>& losses = {}) {
    take(launch.on_drained());
    take(launch.on_losses(losses));
  }

  Words said() {
    Words words;
    for (; read < log.size(); ++read) {
      if (!is_detail(log[read])) words.push_back(std::visit(Describe{}, log[read]));
    }
    return words;
  }
  void forget() { read = log.size(); }
  std::vector<std::string> details() const {
    std::vector<std::string> found;
    for (const selflaunch::SelfLaunchAction& action : log) {
      if (is_detail(action)) found.push_back(std::get<selflaunch::Say>(action).text);
    }
    return found;
  }
  // What it says in the end, and with which code it leaves.
  Words drained_words(const std::vector<std::string>& losses = {}) {
    forget();
    drained(losses);
    return said();
  }

  selflaunch::SelfLaunchPlan plan;
  TimePoint now{};
  selflaunch::SelfLaunch launch;
  std::vector<selflaunch::SelfLaunchAction> log;
  std::size_t read = 0;
  std::size_t waits = 0;
};

}  // namespace ddprun::test
