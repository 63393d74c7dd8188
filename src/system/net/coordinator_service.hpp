// Runs the Coordinator over sockets, with this process' own agent attached in memory.
//
// Events that arrive in one wake-up of the event loop are gathered first and then handled with one `now`, so
// that two workers dying at once give the same first cause in either order. With one agent there is no
// network at all. While workers run there are no timers: a host that vanishes shows in its connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.hpp"
#include "net/tcp_tools.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/handshake.hpp"

namespace ddprun::net {

struct CoordinatorServiceSettings {
  rendezvous::CoordinatorSettings coordinator;       // settings whose port is filled in here
  plan::Announcement announcement;                   // announcement of this process' agent
  std::optional<rendezvous::LaunchFailure> failure;  // failure of an agent that joins only to report it
  checkpoint::Held checkpoints;                      // in this node's memory
  std::optional<rendezvous::Survivor> survivor;      // state received from the previous coordinator
  std::vector<int> ports;                            // the first free one is used; 0 is any
  std::optional<BoundSocket> bound;                  // used instead; it is closed in the end
  std::string launch_key;
  rendezvous::Authenticator authenticator;
  Milliseconds flush_timeout{
      5000};  // for the last messages to be taken, and for latecomers of a failed launch
  Milliseconds handshake_limit{10000};
  LinkLimit host_timeout{k_host_timeout};  // longest time that an agent may be out of reach
  std::string port_hint;                   // same as in AgentListenerSettings
};

struct StoreOpened {
  int port = 0;
  std::string error;  // a sentence; empty: the store listens on `port`
};

// Called from the event loop only, never from within start() or send(). All must be set but on_foreign,
// judge_client, show_notice, show_detail, on_link and on_output.
struct CoordinatorHooks {
  std::function<StoreOpened(const rendezvous::OpenStore&)> open_store;
  std::function<void(Attempt)> close_store;
  std::function<void(const std::string& text)> show_status;  // empty: nothing is waited for any more
  std::function<void(const rendezvous::ShowRestart&)> show_restart;
  std::function<void(const rendezvous::CoordinatorMessage&)>
      on_message;                                    // for this process' agent; Finish is the last
  std::function<void(const report::Cause&)> on_end;  // once: all agents have been told
  std::function<void(const rendezvous::ClientVerdict&)> judge_client;  // the answer to ask_about
  std::function<void(const status::Verdict&)> show_hang;
  std::function<void(const allocation::Notice&)> show_notice;
  std::function<void(const events::Event&)> record;
  std::function<void(int socket, bool open)> on_link;        // to an agent: it is open, or about to be closed
  std::function<void(const std::string& text)> show_detail;  // each step of the rendezvous
  // AgentListenerHooks::on_foreign, for a store that is reached on the very port the user gave.
  std::function<bool(Tcp::socket&, std::string& first_bytes)> on_foreign;
  // A connection that carries an agent's output, with what was read of it already.
  std::function<void(const rendezvous::lifeline::Output&, Tcp::socket, std::string first_bytes)> on_output;
};

class CoordinatorService final : public AgentLink {
 public:
  // Binds and listens. Throws Error when no port is free.
  CoordinatorService(boost::asio::io_context& context, CoordinatorServiceSettings settings,
                     CoordinatorHooks hooks);
  ~CoordinatorService() override;  // closes everything at once; no hook is called any more
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  void start();
  void send(rendezvous::AgentMessage message) override;  // from this process' agent
  // Asks the agents which user owns a connection to the store.
  void ask_about(rendezvous::ClientQuestion question);
  void note_connections(int count);     // connections to the store of this attempt
  void note_job_end(TimePoint end);     // time at which the scheduler ends the job
  void note_grace(Milliseconds grace);  // time that the scheduler gives the workers to stop
  void warn(int signal);                // sends the workers this signal: the scheduler ends the job soon
  int port() const;                     // 0 when there is one agent

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::net
