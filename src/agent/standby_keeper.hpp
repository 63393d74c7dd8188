// Keeps a standby interpreter beside each worker of this host (--standby): asks the workers for what they
// have imported, and has that imported when the plan says so and there is memory for it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/plans.hpp"
#include "facts/snapshot.hpp"
#include "probes/modules_query.hpp"
#include "supervise/standby_plan.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class StandbyKeeper {
 public:
  StandbyKeeper(boost::asio::io_context& context, const Plans& plans, const facts::HostFacts& host,
                workers::WorkerGroup& workers);

  void begin_attempt();  // its workers are about to be started
  void note_start(std::size_t worker);
  void end_attempt();  // or it is about to be stopped
  void end();

 private:
  void wait_for_look();
  void look();
  void note_modules(const std::vector<std::vector<std::string>>& modules);
  void prepare();
  void prepare(const supervise::StandbyPlan::Prepare& due);
  bool has_memory(std::size_t worker);
  void note_news(std::size_t worker, const workers::StandbyPython::News& news);
  void note_ready(std::size_t worker);
  void give_up(std::size_t worker, const std::string& why);
  void end_query();

  boost::asio::io_context& context_;
  const Plans& plans_;
  workers::WorkerGroup& workers_;
  supervise::StandbyPlan plan_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<probes::ModulesQuery> query_;    // under way
  std::vector<std::vector<std::string>> modules_;  // of each worker: the longest list so far
};

}  // namespace ddprun::agent
