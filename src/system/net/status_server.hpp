// Answers processes of this user that ask over a unix socket about the job.
// Each connection gets one text, and the end. Nothing is read from it but, where that is wanted, a request.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::net {

class StatusServer {
 public:
  struct Hooks {
    std::function<bool(int descriptor)> may_ask;  // judges the peer of a connection
    // Called when a process asks: answer() is to be called, once for all that ask until then.
    std::function<void()> asked;
    // If set, called instead with the descriptor and the request of each connection: what it has sent to its
    // end, below k_longest_request bytes. `answer` answers this one, once, now or later, unless it is gone.
    using Answer = std::function<void(const std::string& text)>;
    std::function<void(int descriptor, const std::string& request, Answer answer)> requested{};
    Milliseconds limit{10'000};  // limit of a connection: for an answer, and for reading it
  };
  static constexpr std::size_t k_longest_request = 4096;

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
