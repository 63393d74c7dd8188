// Looks at the collectives of this node's ranks, which are sent to the coordinator (--slow-notice).
// All agents look at the same moments, which are multiples of the interval on the coordinator's clock. Beside
// each look that clock is measured. Without torch in the workers nothing is asked, and without --slow-notice,
// or in a job of one worker, no timer is set.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "options/fault_options.hpp"
#include "plan/world_plan.hpp"
#include "probes/child_query.hpp"
#include "rendezvous/message.hpp"
#include "slow/trace.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::traces {

class TraceLooks {
 public:
  using Tell = std::function<void(rendezvous::AgentMessage)>;

  TraceLooks(boost::asio::io_context& context, workers::WorkerGroup& workers, Tell tell)
      : context_(context), workers_(workers), tell_(std::move(tell)), timer_(context) {}

  void begin_attempt(const plan::Assignment& assignment, const std::optional<options::SlowNotice>& notice);
  void end_attempt();
  void note(const rendezvous::ClockReply& reply);

 private:
  void look();
  std::vector<int> pids() const;
  void note_links(slow::NodeTrace& trace);
  void ask_clock();
  void finish();

  boost::asio::io_context& context_;
  workers::WorkerGroup& workers_;
  Tell tell_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<probes::ChildQuery> query_;  // under way
  slow::ClockOffset clock_;
  std::optional<slow::NodeTrace> trace_;       // seen, in this host's time
  std::vector<slow::Connection> connections_;  // seen by the look before
  std::int64_t connections_at_ = 0;            // microseconds of that look
  std::vector<int> ranks_;
  Attempt attempt_;
  Milliseconds interval_{0};
  std::size_t entries_ = 0;
  int look_ = 0;
};

}  // namespace ddprun::traces
