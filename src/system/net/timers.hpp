// Timers with the one call that each has until it is set anew, and objects that outlive close().
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "base/duration.hpp"

namespace ddprun::net {

// Base of services whose timers, lookups and connections may call back after close(); such calls are dropped.

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

template <class Call>
void call_when_due(boost::asio::steady_timer& timer, Call call) {
  timer.async_wait([call = std::move(call)](const boost::system::error_code& error) mutable {
    if (!error) call();
  });
}

template <class Call>
void call_after(boost::asio::steady_timer& timer, Milliseconds pause, Call call) {
  timer.expires_after(pause);
  call_when_due(timer, std::move(call));
}

// Sets the timer to call at that time; without a time, cancels what it had.
template <class Call>
void call_at(boost::asio::steady_timer& timer, std::optional<TimePoint> time, Call call) {
  if (!time) return void(timer.cancel());
  timer.expires_at(*time);
  call_when_due(timer, std::move(call));
}

}  // namespace ddprun::net
