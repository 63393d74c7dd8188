// The one call that a timer has until it is set anew or cancelled.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "base/duration.hpp"

namespace ddprun::net {

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
