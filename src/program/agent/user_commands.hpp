// Commands of the site or the user: --check-command between two attempts and --on-failure.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/link_settings.hpp"
#include "check/finding.hpp"
#include "facts/snapshot.hpp"
#include "probes/child_query.hpp"
#include "probes/own_check.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::agent {

// Limit of --on-failure, for which the others wait at the job's end.
inline constexpr Milliseconds k_on_failure_limit{20000};

// The command of --check-command.
class CommandLook {
 public:
  CommandLook(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
              bool warned)
      : context_(context), plans_(plans), snapshot_(snapshot), warned_(warned) {}

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
  void note(const lifecycle::CommandVerdict& verdict);
  void keep(const std::string& output) const;
  void settle();

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  std::unique_ptr<probes::ChildQuery> query_;
  probes::CheckQuestion question_;
  std::optional<check::Finding> finding_;
  std::function<void(const std::optional<check::Finding>&)> done_;
  bool warned_;  // said that the check is broken
};

// The command of --on-failure, on the host that reports.
class OnFailure {
 public:
  OnFailure(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot)
      : context_(context), plans_(plans), snapshot_(snapshot) {}

  bool wanted() const { return !plans_.node->options.check.on_failure.value.empty(); }
  // Runs it beside the restart. `report`: its standard input, as of --report. One that still runs from the
  // failure before is ended.
  void attempt_failed(const std::string& report);
  // Runs it, and waits for its end.
  void job_ended(const std::string& report);

 private:
  std::string run(const std::string& event, const std::string& report) const;

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  std::unique_ptr<probes::ChildQuery> query_;
};

}  // namespace ddprun::agent
