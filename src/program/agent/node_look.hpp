// Look at this node between two attempts, for --check=auto and with the command of --check-command.
//
// It begins when the workers are being stopped, in a child, beside that. What looks bad is looked at again
// before it counts: a busy machine may have been the reason.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/plans.hpp"
#include "check/finding.hpp"
#include "probes/child_query.hpp"
#include "probes/own_check.hpp"
#include "rendezvous/message.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class NodeLook {
 public:
  // Takes the node's record of before the first attempt; without one only the command is asked.
  NodeLook(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
           workers::WorkerGroup& workers, std::optional<check::HostRecord> before)
      : context_(context),
        plans_(plans),
        snapshot_(snapshot),
        workers_(workers),
        before_(std::move(before)) {}

  // `failed_here`: the failure is the first one, and of this node.
  void begin(const rendezvous::Stop& stop, bool failed_here);
  // Calls back once it is known what is wrong with this node: nullopt for nothing, or if it does not show in
  // time. At once where no look is under way.
  void when_known(std::function<void(const std::optional<check::Finding>& finding)> done);
  // Ends the look: nobody wants to know any more.
  void end();

 private:
  using OnAnswer = std::function<void(const std::string& answer)>;
  void ask(std::unique_ptr<probes::ChildQuery>& query, const std::function<std::string()>& call,
           Milliseconds limit, OnAnswer on_answer);
  void end(std::unique_ptr<probes::ChildQuery>& query);
  void look();
  void note(const std::string& answer);
  void note_verdict(const supervise::CommandVerdict& verdict);
  void keep_output(const std::string& output) const;
  void note_finding(const check::Finding& finding);
  void settle();

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  workers::WorkerGroup& workers_;
  std::optional<check::HostRecord> before_;
  std::vector<check::Finding> doubts_;  // findings of the first look
  std::optional<check::Finding> finding_;
  std::function<void(const std::optional<check::Finding>&)> done_;
  std::unique_ptr<probes::ChildQuery> query_, command_;
  probes::CheckQuestion question_;
  bool warned_ = false;  // that the command is broken
};

}  // namespace ddprun::agent
