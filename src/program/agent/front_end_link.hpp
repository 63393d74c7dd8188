// Lifeline of an agent to the ddprun that started it: signals that arrive on it, and its own last word.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "agent/link_settings.hpp"
#include "facts/snapshot.hpp"
#include "net/lifeline_sockets.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::agent {

class FrontEndLink {
 public:
  struct Hooks {
    std::function<void(const rendezvous::lifeline::Signal& signal)> on_signal;
    std::function<void(const std::string& why)> on_gone;  // also if standard output has no reader any more
  };
  FrontEndLink(boost::asio::io_context& context, const Plans& plans, Hooks hooks)
      : context_(context), plans_(plans), hooks_(std::move(hooks)), look_(context) {}

  // Does nothing if no ddprun started this one. Throws Error if its address is invalid.
  void hold(const facts::Snapshot& snapshot);
  void tell_end(const rendezvous::lifeline::Ended& ended, std::function<void()> told);

 private:
  void watch_remote_launcher();

  boost::asio::io_context& context_;
  const Plans& plans_;
  Hooks hooks_;
  boost::asio::steady_timer look_;
  std::unique_ptr<net::LifelineClient> lifeline_;
};

}  // namespace ddprun::agent
