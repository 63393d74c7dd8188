// Answers to --status and --stacks on an agent's host.
// They show the whole job as the coordinator knows it, or only the workers here if it gives no answer.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/link_settings.hpp"
#include "inspection/node_usage.hpp"
#include "net/status_server.hpp"
#include "probes/child_query.hpp"
#include "rendezvous/message.hpp"
#include "status/job_status.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

// Requests of --restart and --drain on an agent's host.
// They are passed on to the coordinator, whose reply is the answer.
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

class StatusService {
 public:
  // Makes the service. `began`: when this agent began, Unix time in milliseconds.
  StatusService(boost::asio::io_context& context, const Plans& plans, workers::WorkerGroup& workers,
                std::int64_t began)
      : context_(context),
        plans_(plans),
        workers_(workers),
        began_(began),
        job_(context),
        job_stacks_(context),
        dump_timer_(context) {}

  void serve(const std::function<void(bool stacks)>& asked);
  // Receives what this host's workers use, and where they are; called once, now or later.
  using Measured = std::function<void(const status::NodeStatus&)>;
  void measure(inspection::Depth depth, Measured done);
  // Waits for the coordinator, which was asked; calls `otherwise` if it does not answer in time.
  void wait_for_job(bool stacks, std::function<void()> otherwise);
  void note(const rendezvous::NodeShown& shown);
  void show(const rendezvous::JobShown& shown);
  // Shows this host alone. `coordinator`: the host to ask for all.
  void show_this_host(const std::string& coordinator, bool ending, bool stacks);
  void end();

 private:
  struct Awaited {
    explicit Awaited(boost::asio::io_context& context) : limit(context) {}
    std::vector<status::NodeStatus> nodes{};  // nodes that have answered
    boost::asio::steady_timer limit;
  };

  status::JobStatus job_here() const;
  void add_job(status::JobStatus& status) const;
  void show(status::JobStatus status, bool stacks);
  void wait_for_dump();
  void tell_taken(const std::string& wanted, const std::string& had) const;
  void begin_measurement();
  inspection::WorkerPlaces places(bool dumps) const;
  void end_measurement(bool writes);
  void note_written(std::string problem, bool late, Milliseconds limit);

  boost::asio::io_context& context_;
  const Plans& plans_;
  workers::WorkerGroup& workers_;
  std::int64_t began_;
  std::optional<net::StatusServer> server_, stacks_server_;
  Awaited job_, job_stacks_;
  boost::asio::steady_timer dump_timer_;         // --stacks-every
  std::unique_ptr<probes::ChildQuery> usage_;    // in progress
  os::Fd problem_;                               // pipe that names the file that cannot be written, and why
  std::unique_ptr<probes::ChildQuery> writing_;  // has answered, and writes what it has collected
  bool told_unwritten_ = false;
  inspection::Depth depth_ = inspection::Depth::signs;        // depth of usage_
  std::vector<Measured> measured_for_;                        // callers that wait for usage_
  std::vector<std::pair<inspection::Depth, Measured>> next_;  // for one that looks deeper
};

}  // namespace ddprun::agent
