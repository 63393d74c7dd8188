// An event loop that runs until something has come about.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>

namespace ddprun::testing {

inline constexpr std::chrono::seconds k_run_limit{20};  // there to end a broken test, not to measure

// Whether it has come about within the limit.
template <class Done>
bool runs_until(boost::asio::io_context& context, const Done& done,
                std::chrono::milliseconds limit = k_run_limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    context.restart();
    context.run_one_for(std::chrono::milliseconds(10));
  }
  return done();
}

}  // namespace ddprun::testing
