// Requests of --restart and --drain on an agent's host.
// They are passed on to the coordinator, whose reply is the answer.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "net/status_server.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::agent {

class RestartService {
 public:
  // Sends a message to the coordinator; false if none can be asked now.
  using Ask = std::function<bool(rendezvous::AgentMessage)>;
  // `user`, `host`: those of this process, for the name of who asks.
  RestartService(boost::asio::io_context& context, std::string user, std::string host, Ask ask)
      : context_(context), user_(std::move(user)), host_(std::move(host)), ask_(std::move(ask)) {}

  void serve();
  void note(const rendezvous::RestartReply& reply);
  void end() { server_.reset(); }

 private:
  using Answer = net::StatusServer::Hooks::Answer;
  void pass_on(int descriptor, const std::string& text, Answer answer);

  boost::asio::io_context& context_;
  std::string user_, host_;
  Ask ask_;
  std::optional<net::StatusServer> server_;
  int last_ = 0;                   // number of the latest request
  std::map<int, Answer> waiting_;  // for the coordinator, by number
};

}  // namespace ddprun::agent
