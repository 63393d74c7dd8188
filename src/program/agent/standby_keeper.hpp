// Keeps a standby interpreter beside each worker of this host (--standby).
// It asks the workers for the modules they have imported, and has these imported when the plan says so and
// there is memory for it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/link_settings.hpp"
#include "facts/snapshot.hpp"
#include "lifecycle/standby_plan.hpp"
#include "plan/finalise.hpp"
#include "probes/child_query.hpp"
#include "rendezvous/message.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class StandbyKeeper {
 public:
  using Tell = std::function<void(rendezvous::AgentMessage)>;

  // Makes a keeper. `expected`: plan of the share that this agent would have if it took the place of another.
  StandbyKeeper(boost::asio::io_context& context, const Plans& plans, plan::LaunchPlan expected,
                const facts::HostFacts& host, workers::WorkerGroup& workers, Tell tell);

  void begin_attempt();  // called when its workers are about to be started
  void note_start(std::size_t worker);
  // Notes the modules that other agents' workers have loaded, while this agent stands by.
  void note(const rendezvous::Modules& modules);
  void note_staged(const std::vector<staging::Mapping>& staged) { expected_.staged = staged; }
  void end_attempt();  // called at its end, or when it is about to be stopped
  void end();

 private:
  void wait_for_look();
  void look();
  void note_modules(const std::vector<std::vector<std::string>>& modules);
  void prepare();
  void prepare(const lifecycle::StandbyPlan::Prepare& due);
  bool has_memory(std::size_t worker);
  void tell_others();
  void begin(std::size_t workers);
  void note_news(std::size_t worker, const workers::StandbyPython::News& news);
  void note_ready(std::size_t worker);
  void give_up(std::size_t worker, const std::string& why);
  void tell_end(std::size_t worker, const std::string& why) const;

  boost::asio::io_context& context_;
  const Plans& plans_;
  plan::LaunchPlan expected_;
  workers::WorkerGroup& workers_;
  Tell tell_;
  lifecycle::StandbyPlan plan_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<probes::ChildQuery> query_;      // in progress
  std::vector<std::vector<std::string>> modules_;  // longest list of each worker so far
  std::size_t told_ = 0;                           // number of the first worker's modules already announced
};

}  // namespace ddprun::agent
