// Search for signs of life of this host's ranks.
// It reports to the coordinator when there are none any more (--hang-timeout), and when a rank has exited
// while others may run on. It sets no timer if neither is asked for.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "agent/link_settings.hpp"
#include "agent/status_service.hpp"
#include "facts/snapshot.hpp"
#include "rendezvous/message.hpp"
#include "status/hang_watch.hpp"

namespace ddprun::agent {

class HangSearch {
 public:
  using Tell = std::function<void(rendezvous::AgentMessage)>;

  HangSearch(boost::asio::io_context& context, const Plans& plans, const facts::HostFacts& host,
             StatusService& status, Tell tell);

  void begin_attempt();
  void end_attempt();                  // ends with the attempt, or when it is about to be stopped
  void note_exit(std::size_t worker);  // notes an exit with code 0

 private:
  void look();
  void look_at(const status::NodeStatus& node, TimePoint began);
  void wait_for_look(TimePoint began);  // the look before
  void tell_quiet(std::optional<Milliseconds> since);
  void wait_for_exits(Milliseconds since, bool expired);

  const Plans& plans_;
  const facts::HostFacts& host_;
  StatusService& status_;
  Tell tell_;
  boost::asio::steady_timer look_timer_, exit_timer_;
  std::optional<status::HangWatch> watch_;  // set if --hang-timeout is in force
  std::shared_ptr<int> attempt_;            // while one runs: late answers are about another
  std::optional<GlobalRank> exited_;        // first rank that has exited
  bool quiet_ = false;                      // state that the coordinator knows
};

}  // namespace ddprun::agent
