// What the driver of one agent holds, whether the coordinator is in this process or elsewhere.
#pragma once

#include "ddprun/rendezvous/message.hpp"

namespace ddprun {

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // To the coordinator; dropped when there is no connection to it (any more). The service sends Join and
  // Probed itself. Never calls back before it returns.
  virtual void send(AgentMessage message) = 0;
  // By which this host talks to the coordinator, numeric; empty before that, and in the coordinator itself.
  virtual std::string local_address() const { return {}; }
};

}  // namespace ddprun
