// Decides which user owns a connection to the store.
// The store's protocol has no authentication and torch unpickles what it reads from it, so a connection
// counts only if the kernel of its host says that a process of the job's user holds its other end. That
// host's agent is asked, over the connection on which it has proved itself; for an address that no agent
// announced (a host gets another by DHCP or by IPv6's privacy while the job runs) all agents are.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "options/options.hpp"

namespace ddprun::rendezvous {

using ConnectionId = Id<struct ConnectionTag>;  // one authenticated connection; never used again

// Connection by its two ends, as numeric addresses.
struct StoreConnection {
  std::string client;
  int client_port = 0;
  std::string server;
  int server_port = 0;
  friend auto operator<=>(const StoreConnection&, const StoreConnection&) = default;
};

// Holder of a connection's other end, as an agent knows it. Of several answers the highest in this order
// counts.
enum class Holder {
  elsewhere,  // no open socket in this host's network is its other end
  unknown,    // the kernel does not tell
  foreign,    // another user's process
  own,        // a process of the job's user, or root's
};

// The question, and its whole answer.
struct ClientQuestion {
  StoreConnection connection;
  options::StoreAccess access =
      options::StoreAccess::user;  // host: it is own where one of the interfaces has the address
  friend bool operator==(const ClientQuestion&, const ClientQuestion&) = default;
};
struct ClientVerdict {
  StoreConnection connection;
  Holder holder = Holder::elsewhere;
  friend bool operator==(const ClientVerdict&, const ClientVerdict&) = default;
};

class ClientQuestions {
 public:
  static constexpr Milliseconds k_limit{60000};  // an agent that has not answered by then knows nothing of it

  void ask(const StoreConnection& connection, std::set<ConnectionId> agents, TimePoint now);
  // Notes an answer. Returns the verdict, once: at the first `own`, or when all have answered.
  std::optional<ClientVerdict> note(ConnectionId agent, const ClientVerdict& answer);
  std::vector<ClientVerdict> expire(TimePoint now);
  std::optional<TimePoint> deadline() const;

 private:
  struct Question {
    std::set<ConnectionId> open;
    TimePoint deadline;
    Holder best = Holder::elsewhere;
  };
  std::map<StoreConnection, Question> questions_;
};

}  // namespace ddprun::rendezvous
