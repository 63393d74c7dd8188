// Whether an address from which somebody connects to the store is now one of the job's hosts: a host gets
// another by DHCP or by IPv6's privacy while the job runs. Its agent is asked, over the connection on which
// it has proved itself.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/base/duration.hpp"
#include "ddprun/base/ids.hpp"

namespace ddprun {

using ConnectionId = Id<struct ConnectionTag>;  // one authenticated connection; never used again

class AddressQuestions {
 public:
  static constexpr Milliseconds k_limit{5000};  // an agent that has not answered by then is taken for a no

  void ask(const std::string& address, std::set<ConnectionId> agents, TimePoint now);
  // The verdict, once: at the first yes, or when all have said no.
  std::optional<bool> note(ConnectionId agent, const std::string& address, bool own);
  // Addresses whose question nobody answered with yes in time.
  std::vector<std::string> expire(TimePoint now);
  std::optional<TimePoint> deadline() const;

 private:
  struct Question {
    std::set<ConnectionId> open;
    TimePoint deadline;
  };
  std::map<std::string, Question> questions_;
};

}  // namespace ddprun
