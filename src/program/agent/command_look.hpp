// The command of --check-command between two attempts, and after a failure.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/plans.hpp"
#include "check/finding.hpp"
#include "facts/snapshot.hpp"
#include "probes/child_query.hpp"
#include "probes/own_check.hpp"
#include "rendezvous/message.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class CommandLook {
 public:
  CommandLook(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
              workers::WorkerGroup& workers)
      : context_(context), plans_(plans), snapshot_(snapshot), workers_(workers) {}

  // Begins, beside the stop of the workers, where another attempt may follow. `failed_here`: the failure is
  // of this node; the command runs in any case then, and what it says is kept beside the logs.
  void begin(const rendezvous::Stop& stop, bool failed_here);
  // Calls back with the command's verdict; nullopt for a fit node and a broken check. At once where it does
  // not run.
  void when_known(std::function<void(const std::optional<check::Finding>& finding)> done);
  // Has it count as fit unless it has answered: the job ends.
  void give_up();
  // Ends the command: nobody wants to know any more.
  void end();

 private:
  void note(const supervise::CommandVerdict& verdict);
  void keep(const std::string& output) const;
  void settle();
  void drop_query();

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  workers::WorkerGroup& workers_;
  std::unique_ptr<probes::ChildQuery> query_;
  probes::CheckQuestion question_;
  std::optional<check::Finding> finding_;
  std::function<void(const std::optional<check::Finding>&)> done_;
  bool warned_ = false;  // said that the check is broken
};

}  // namespace ddprun::agent
