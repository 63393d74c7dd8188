// Look at this node between two attempts, for --check=auto.
//
// It begins when the workers are being stopped, in a child, beside that. What looks bad is looked at again
// before it counts: a busy machine may have been the reason. On a node that is fit it then waits until no
// other process holds memory of the workers' GPUs (--gpu-release-timeout, from the end of the workers on):
// what they have left behind, or another job.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/plans.hpp"
#include "check/finding.hpp"
#include "probes/child_query.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class NodeLook {
 public:
  // Takes the node's record of before the first attempt; without one nothing is ever looked at.
  NodeLook(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
           workers::WorkerGroup& workers, std::optional<check::HostRecord> before)
      : context_(context),
        plans_(plans),
        snapshot_(snapshot),
        workers_(workers),
        before_(std::move(before)),
        timer_(context) {}

  void begin();
  // Calls back, when the workers have ended, once it is known what is wrong with this node: nullopt for
  // nothing, or if it does not show in time. At once where no look is under way.
  void when_known(std::function<void(const std::optional<check::Finding>& finding)> done);
  // Has nothing found yet count: the job ends.
  void give_up();
  // Ends the look: nobody wants to know any more.
  void end();

 private:
  using Note = void (NodeLook::*)(const std::string& answer);
  void ask(const std::function<std::string()>& question, const char* purpose, Note then);
  void look();
  void note(const std::string& answer);
  std::vector<std::string> gpus_of_workers() const;
  std::vector<int> standby_processes() const;
  void look_at_memory();
  void note_memory(const std::string& answer);
  void settle_unfit(const check::Finding& finding);
  void settle(std::optional<check::Finding> finding);

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  workers::WorkerGroup& workers_;
  std::optional<check::HostRecord> before_;
  std::vector<check::Finding> doubts_;  // findings of the first look
  std::optional<check::Finding> finding_;
  std::function<void(const std::optional<check::Finding>&)> done_;
  std::unique_ptr<probes::ChildQuery> query_;
  bool busy_ = false;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> release_until_;  // set once the workers have ended
};

}  // namespace ddprun::agent
