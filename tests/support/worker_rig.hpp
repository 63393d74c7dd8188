// The workers of one host as shells with a script, served without an agent.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "os/path_walk.hpp"
#include "plan_node.hpp"
#include "processes.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::testing {

inline constexpr std::chrono::seconds k_rig_deadline{20};

// The workers of one host, each a shell with this script.
class WorkerRig {
 public:
  using Change = std::function<void(options::Options& options)>;
  explicit WorkerRig(int workers, std::vector<std::string> command, const Change& change = {})
      : plan_(make_plan(workers, std::move(command), change)),
        group(context_, plan_.node, snapshot_, [this](std::size_t worker, const ExitStatus& status) {
          ++calls;
          ended[worker] = status;
        }) {
    group.outputs().when_heard([this](std::size_t) { ++heard; });
    begin(Attempt{1});
  }
  ~WorkerRig() {
    for (std::size_t i = 0; i < size(); ++i) group.kill_group(i);
    group.signal_descendants(SIGKILL);
  }
  WorkerRig(const WorkerRig&) = delete;
  WorkerRig& operator=(const WorkerRig&) = delete;

  void begin(Attempt attempt) {
    plan_.assignment.attempt = attempt;
    group.begin_attempt(std::make_shared<const plan::LaunchPlan>(plan_), "", "");
  }
  void lose_program(std::size_t worker) {
    plan_.planned[worker].command = {"/nonexistent/train"};
    begin(Attempt{1});
  }
  std::shared_ptr<const plan::LaunchPlan> plan() const {
    return std::make_shared<const plan::LaunchPlan>(plan_);
  }
  boost::asio::io_context& context() { return context_; }
  std::size_t size() const { return plan_.planned.size(); }
  void start_all() {
    for (std::size_t i = 0; i < size(); ++i) group.start(i);
  }

  // Serves the workers until `done`; fails the test at the deadline.
  template <class Done>
  void run_until(const Done& done) {
    const auto deadline = std::chrono::steady_clock::now() + k_rig_deadline;
    while (!done()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(10));
      group.look_for_ends();
    }
  }
  void run_to_ends() {
    start_all();
    run_until([&] { return ended.size() == size(); });
  }
  report::Failure failure_of(std::size_t worker) {
    std::optional<report::Failure> found;
    group.describe_failure(worker, ended.at(worker),
                           [&](report::Failure failure) { found = std::move(failure); });
    run_until([&] { return found.has_value(); });
    return *found;
  }

 private:
  plan::LaunchPlan make_plan(int workers, std::vector<std::string> command, const Change& change) {
    snapshot_.host.name = "n1";
    snapshot_.environment = {{"PATH", "/usr/bin:/bin"}};
    options::Options options;
    options.workers = options::parse_workers_per_node(std::to_string(workers), "--nproc-per-node");
    options.bind.mode = options::BindMode::none;
    options.no_python = true;
    options.command = std::move(command);
    if (change) change(options);
    snapshot_.programs[options.command.front()] =
        os::capture_program(options.command.front(), "/usr/bin:/bin");
    return test::plan_node(snapshot_, options);
  }

  Adopting adopting_;  // what a worker leaves behind
  boost::asio::io_context context_;
  facts::Snapshot snapshot_;
  plan::LaunchPlan plan_;

 public:
  std::map<std::size_t, ExitStatus> ended;
  int calls = 0;
  int heard = 0;  // number of workers that have written something
  workers::WorkerGroup group;
};

inline std::vector<std::string> shell(std::string script) { return {"sh", "-c", std::move(script)}; }

inline ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code}; }
inline ExitStatus killed() { return {ExitStatus::Kind::signalled, SIGKILL}; }

}  // namespace ddprun::testing
