// Answers processes of this user that ask over a unix socket about the job.
// Each connection gets one text, and the end. Nothing is read from it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::net {

class StatusServer {
 public:
  struct Hooks {
    std::function<bool(int descriptor)> may_ask;  // judges the peer of a connection
    // Called when a process asks: answer() is to be called, once for all that ask until then.
    std::function<void()> asked;
  };

  // The first of `names` in the abstract namespace that can be had; without one (no such sockets here) nobody
  // can ask.
  StatusServer(boost::asio::io_context& context, const std::vector<std::string>& names, Hooks hooks);
  ~StatusServer();  // closes everything at once; no hook is called any more
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  void answer(const std::string& text);
  bool listens() const;
  const std::string& name() const;  // the one it has; empty: none

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::net
