// Requests of --profile on an agent's host, this host's part of the answer, and files of --profile-every.
// A request is passed on to the coordinator, which asks all agents; what they answer is collected here. If no
// coordinator can be asked, this host is profiled alone.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "net/status_server.hpp"
#include "probes/child_query.hpp"
#include "rendezvous/message.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::profiling {

class ProfileService {
 public:
  // Sends a message to the coordinator; false if none can be asked now.
  using Ask = std::function<bool(rendezvous::AgentMessage)>;
  ProfileService(boost::asio::io_context& context, const workers::WorkerGroup& workers, Ask ask)
      : context_(context), workers_(workers), ask_(std::move(ask)), timer_(context) {}

  void serve();
  // After serve(): on the host of rank 0, profiles all ranks at multiples of the time, for a tenth of it and
  // ten seconds at most, and writes that to the log folder.
  void repeat(Milliseconds every);
  void take(const rendezvous::ProfileRequest& request);  // profiles this host's workers
  void note(const rendezvous::ProfilePart& part);
  void end();

 private:
  using Answer = net::StatusServer::Hooks::Answer;
  struct Asked {
    Asked(boost::asio::io_context& context, Answer to) : answer(std::move(to)), limit(context) {}
    Answer answer;
    boost::asio::steady_timer limit;
    std::string lines{};
    int agents = 0, ended = 0;
  };

  void pass_on(const std::string& text, Answer answer);
  void profile_all(Milliseconds every);
  void finish(int number);

  boost::asio::io_context& context_;
  const workers::WorkerGroup& workers_;
  Ask ask_;
  std::optional<net::StatusServer> server_;
  int last_ = 0;                                 // number of the latest request
  std::map<int, std::unique_ptr<Asked>> asked_;  // requests by number
  std::unique_ptr<probes::ChildQuery> query_;    // in progress
  boost::asio::steady_timer timer_;              // --profile-every
  std::unique_ptr<probes::ChildQuery> own_;      // asks and writes for that
  bool told_unwritten_ = false;
};

}  // namespace ddprun::profiling
