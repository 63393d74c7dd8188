#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "random_seed.hpp"
#include "self_launch_play.hpp"
#include "selflaunch/self_launch.hpp"

using namespace ddprun;
using namespace ddprun::selflaunch;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

// A launch whose remote launchers and agents do what they may do, in random order.
class RandomLaunch {
 public:
  RandomLaunch(SelfLaunchPlan plan, std::mt19937& random)
      : random_(random), play_(std::move(plan), settings_for_few()) {
    remote_launchers_.resize(play_.plan.commands.size());
    agents_.resize(play_.plan.hosts.size());
    look();
  }

  void do_something() {
    const std::size_t before = play_.log.size();
    const std::size_t waits = play_.waits;
    switch (one_of(12)) {
      case 0:
      case 1:
      case 2:
        connect(one_of(agents_.size()));
        break;
      case 3:
      case 4:
        end_agent(one_of(agents_.size()));
        break;
      case 5:
        end(one_of(remote_launchers_.size()));
        break;
      case 6:
        if (one_of(8) == 0) signal(one_of(3) == 0 ? SIGUSR1 : one_of(2) == 0 ? SIGTERM : SIGINT);
        break;
      case 7:
      case 8:
        answer();
        break;
      default:
        pass(Milliseconds{one_of(3) == 0 ? one_of(20000) : one_of(300)}, one_of(2) == 0);
    }
    REQUIRE(play_.log.size() - before <= (1 + play_.waits - waits) * (2 * remote_launchers_.size() + 4));
    look();
  }

  // However long it takes, waiting alone has an end.
  void wait() {
    const std::size_t waits = play_.waits;
    pass(24h, false);
    REQUIRE_FALSE(play_.launch.deadline());
    REQUIRE(play_.waits - waits <= 2 * remote_launchers_.size() + 4);
    look();
  }

  // All agents and remote launchers end: the launch waits for nothing else.
  void end_all() {
    bool again = true;
    while (again) {
      again = false;
      for (std::size_t i = 0; i < agents_.size(); ++i) end_agent(i);
      for (std::size_t i = 0; i < remote_launchers_.size(); ++i) again = end(i) || again;
    }
    answer();
    answer();
    REQUIRE(left_);
    check_code();
  }

  bool left() const { return left_.has_value(); }
  int code() const { return left_.value_or(-1); }
  bool stopped() const { return stopped_; }
  bool killed() const { return killed_; }

 private:
  struct RemoteLauncher {
    std::optional<TimePoint> started;
    std::optional<int> code;
    std::optional<int> code_to_come;  // it was signalled
  };
  enum class Agent { absent, connected, gone };

  static SelfLaunchSettings settings_for_few() {
    SelfLaunchSettings result = settings();
    result.limits.starting_at_once = 3;
    return result;
  }

  std::size_t one_of(std::size_t count) { return random_() % count; }
  int random_code() { return one_of(2) == 0 ? 0 : one_of(2) == 0 ? 1 : 255; }
  std::size_t remote_launcher_of(std::size_t agent) const {
    return remote_launchers_.size() == 1 ? 0 : agent;
  }

  // From deadline to deadline, so that what is done is seen when it is done.
  void pass(Milliseconds time, bool busy) {
    const TimePoint until = play_.now + time;
    while (play_.now < until) {
      const TimePoint next = std::min(play_.launch.deadline().value_or(until), until);
      play_.pass(std::chrono::duration_cast<Milliseconds>(next - play_.now), busy);
      look();
    }
  }

  void connect(std::size_t agent) {
    if (left_ || agents_[agent] != Agent::absent) return;
    if (!remote_launchers_[remote_launcher_of(agent)].started) return;
    agents_[agent] = Agent::connected;
    came_.insert(agent);
    play_.connect(static_cast<int>(agent));
    look();
  }

  void end_agent(std::size_t agent) {
    if (left_ || agents_[agent] != Agent::connected) return;
    agents_[agent] = Agent::gone;
    if (one_of(8) == 0) {
      ++lost_;
      play_.lose(static_cast<int>(agent));
    } else {
      told_.push_back(random_code());
      play_.end_agent(static_cast<int>(agent), told_.back(), told_.back() == 0 || one_of(10) != 0);
    }
    look();
  }

  bool end(std::size_t number) {
    RemoteLauncher& remote_launcher = remote_launchers_[number];
    if (left_ || !remote_launcher.started || remote_launcher.code) return false;
    remote_launcher.code = remote_launcher.code_to_come.value_or(random_code());
    play_.end(number, *remote_launcher.code);
    look();
    return true;
  }

  void signal(int number) {
    if (left_) return;
    stopped_ = stopped_ || (number != SIGUSR1 && !over_);
    play_.signal(number, one_of(2) == 0);
    look();
  }

  // What the machine waits for.
  void answer() {
    for (const int number : std::exchange(to_judge_, {})) {
      if (!left_) play_.judged(number, one_of(2) == 0);
      look();
    }
    if (!left_ && std::exchange(draining_, false)) play_.take(play_.launch.on_drained());
    look();
    if (!left_ && std::exchange(counting_, false))
      play_.take(play_.launch.on_losses(one_of(10) == 0 ? Words{"lost"} : Words{}));
    look();
  }

  void look() {
    for (; seen_ < play_.log.size(); ++seen_) {
      REQUIRE_FALSE(left_);
      const SelfLaunchAction action = play_.log[seen_];
      std::visit([this](const auto& each) { note(each); }, action);
    }
  }

  void note(const selflaunch::Start& action) {
    REQUIRE_FALSE(stopped_);
    REQUIRE_FALSE(failed_);
    REQUIRE_FALSE(remote_launchers_[action.remote_launcher].started);
    remote_launchers_[action.remote_launcher].started = play_.now;
    std::size_t starting = 0;
    for (std::size_t i = 0; i < remote_launchers_.size(); ++i) {
      const RemoteLauncher& each = remote_launchers_[i];
      if (each.started && !each.code && !came_.contains(i) && play_.now - *each.started < 5s) ++starting;
    }
    REQUIRE(starting <= 3);
  }
  void note(const selflaunch::SignalRemoteLauncher& action) {
    RemoteLauncher& remote_launcher = remote_launchers_[action.remote_launcher];
    REQUIRE(remote_launcher.started);
    REQUIRE_FALSE(remote_launcher.code);
    remote_launcher.code_to_come = 128 + action.number;
    killed_ = killed_ || action.number == SIGKILL;
  }
  void note(const selflaunch::SignalAgents&) {
    REQUIRE(std::find(agents_.begin(), agents_.end(), Agent::connected) != agents_.end());
  }
  void note(const selflaunch::Judge& action) { to_judge_.push_back(action.number); }
  void note(const selflaunch::Say& action) {
    failed_ = failed_ || action.level == selflaunch::Say::Level::error;
  }
  void note(const selflaunch::Drain&) { draining_ = over_ = true; }
  void note(const selflaunch::CountLosses&) { counting_ = true; }
  void note(const selflaunch::Leave& action) { left_ = action.code; }

  // Success needs every agent's word, or a remote launcher's that passes it on.
  void check_code() const {
    if (*left_ != 0) return;
    for (const int code : told_) REQUIRE(code == 0);
    if (told_.size() == agents_.size()) return;
    REQUIRE(play_.plan.passes_exit_code);
    REQUIRE(lost_ == 0);
    REQUIRE_FALSE(stopped_);
    REQUIRE_FALSE(failed_);
    for (const RemoteLauncher& each : remote_launchers_) REQUIRE(each.code.value_or(0) == 0);
  }

  std::mt19937& random_;
  Play play_;
  std::vector<RemoteLauncher> remote_launchers_;
  std::vector<Agent> agents_;
  std::set<std::size_t> came_;  // agents that have ever connected
  std::vector<int> to_judge_;
  std::vector<int> told_;
  int lost_ = 0;
  bool stopped_ = false;
  bool failed_ = false;  // an error was said
  bool killed_ = false;
  bool over_ = false;  // all that is left is output
  bool draining_ = false;
  bool counting_ = false;
  std::optional<int> left_;
  std::size_t seen_ = 0;
};

}  // namespace

TEST_CASE("in any order of events a launch comes to its end, and only then, with a code that is true") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  std::map<int, int> codes;
  int stopped = 0;
  int killed = 0;
  for (int round = 0; round < rounds(600); ++round) {
    INFO("round " << round);
    const int hosts = 1 + static_cast<int>(random() % 8);
    const auto kind = random() % 4;
    RandomLaunch launch(kind == 0 ? by_srun(hosts) : kind == 1 ? by_pbsdsh(hosts) : by_ssh(hosts), random);
    const auto steps = random() % 60;
    for (std::size_t step = 0; step < steps && !launch.left(); ++step) launch.do_something();
    if (random() % 3 == 0) launch.wait();
    launch.end_all();
    ++codes[launch.code()];
    stopped += launch.stopped() ? 1 : 0;
    killed += launch.killed() ? 1 : 0;
  }
  CHECK(codes[0] > 20);
  CHECK(codes[125] > 20);
  CHECK(codes[1] > 20);
  CHECK(stopped > 50);
  CHECK(killed > 20);
}
