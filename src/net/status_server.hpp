// Answers processes of this user that ask over a unix socket about the job.
// Each connection gets one text, and the end. Nothing is read from it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::net {

class StatusServer {
 public:
  struct Hooks {
    std::function<bool(int descriptor)> may_ask;  // judges the peer of a connection
    // Called when a process asks: answer() is to be called, once for all that ask until then.
    std::function<void()> asked;
  };

  // Listens at `name` in the abstract namespace. If the name is not available (taken, no such sockets here)
  // no process can ask.
  StatusServer(boost::asio::io_context& context, const std::string& name, Hooks hooks);
  ~StatusServer();  // closes everything at once; no hook is called any more
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  void answer(const std::string& text);
  bool listens() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::net
