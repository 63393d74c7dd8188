// Link of one agent's driver to the coordinator, whether in this process or elsewhere.
#pragma once

#include "rendezvous/message.hpp"

namespace ddprun::net {

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // Sends to the coordinator; drops the message when there is no connection to it (any more). The service
  // sends Join and Probed itself. Never calls back before it returns.
  virtual void send(rendezvous::AgentMessage message) = 0;
  // Returns this host's end of the connection by which it reached that address of the coordinator, numeric;
  // empty if none did, and in the coordinator itself.
  virtual std::string local_end(const std::string& /*address*/) const { return {}; }
};

}  // namespace ddprun::net
