// Base of services whose timers, lookups and connections may call back after close(); such calls are dropped.
#pragma once

#include <memory>
#include <utility>

namespace ddprun::net {

template <class Service>
class Closable : public std::enable_shared_from_this<Service> {
 protected:
  // Wraps a handler so that it does nothing once the service is closed or gone.
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
