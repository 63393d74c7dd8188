// What a service is that others may still call after its end: timers, lookups, connections.
#pragma once

#include <memory>
#include <utility>

namespace ddprun::net {

template <class Service>
class Closable : public std::enable_shared_from_this<Service> {
 protected:
  // What the handler does while the service is there and not closed; later calls do nothing.
  template <class Handler>
  auto while_open(Handler handler) {
    return [weak = this->weak_from_this(), handler = std::move(handler)](auto&&... arguments) {
      const auto self = weak.lock();
      if (self && !self->closed_) handler(std::forward<decltype(arguments)>(arguments)...);
    };
  }
  bool closed_ = false;
};

}  // namespace ddprun::net
