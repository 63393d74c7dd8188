// Look at this node between two attempts, for --check=auto and --check-command.
//
// It begins when the workers are being stopped, in a child, beside that. What looks bad is looked at again
// before it counts: a busy machine may have been the reason. Once the workers have ended, a node that is fit
// waits until no other process holds memory of their GPUs (--gpu-release-timeout), and as much of its own is
// free as they had used: what they have left behind, or another job.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/link_settings.hpp"
#include "agent/user_commands.hpp"
#include "check/finding.hpp"
#include "probes/child_query.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class NodeLook {
 public:
  // `look`: the one before the first attempt. Without the node's record the command alone is asked.
  NodeLook(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
           workers::WorkerGroup& workers, probes::StartLook look)
      : context_(context),
        plans_(plans),
        snapshot_(snapshot),
        workers_(workers),
        before_(std::move(look.record)),
        command_(context, plans, snapshot, look.command_is_broken),
        timer_(context) {}

  // Begins beside the stop of the workers. `failed_here`: the failure is of this node.
  void begin(const rendezvous::Stop& stop, bool failed_here);
  // The workers have ended: calls back once it is known what is wrong with this node, with the built-in
  // look's finding before that of the command. At once where no look is under way.
  void when_known(std::function<void(const rendezvous::Unfit& unfit)> done);
  // Has nothing found yet count: the job ends.
  void give_up();
  // Ends the look: nobody wants to know any more.
  void end();

 private:
  using Note = void (NodeLook::*)(const std::string& answer);
  void ask(const std::function<std::string()>& question, const char* purpose, Note then);
  void look();
  void note(const std::string& answer);
  std::uint64_t memory_of_workers() const;
  std::vector<int> standby_processes() const;
  void look_at_memory();
  void note_memory(const std::string& answer);
  void settle(std::optional<check::Finding> finding);
  void tell(const std::function<void(const rendezvous::Unfit&)>& done);

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  workers::WorkerGroup& workers_;
  std::optional<check::HostRecord> before_;
  std::vector<check::Finding> doubts_;  // findings of the first look
  std::optional<check::Finding> finding_;
  std::function<void(const rendezvous::Unfit&)> done_;
  std::unique_ptr<probes::ChildQuery> query_;
  CommandLook command_;
  bool busy_ = false;
  std::uint64_t used_ = 0;  // memory of the workers when they were stopped
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> release_until_;  // set once the workers have ended
};

}  // namespace ddprun::agent
