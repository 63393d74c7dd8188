// One member's side of the rendezvous over sockets: finds the coordinator, joins, and carries messages.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/duration.hpp"
#include "net/connection.hpp"
#include "net/dial.hpp"
#include "net/name_lookup.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/membership/member_join.hpp"

namespace ddprun::net {

struct MemberServiceSettings {
  rendezvous::MemberJoinSettings join;
  std::string launch_key;
  rendezvous::Authenticator authenticator;
  plan::Announcement announcement;
  std::optional<rendezvous::LaunchFailure> failure;  // failure of an agent that joins only to report it
  checkpoint::Held checkpoints;                      // in this node's memory
  std::optional<rendezvous::Survivor> survivor;      // set if it looks for another coordinator of its job
  std::string version;
  int agents = 2;
  // Number of connections to the coordinator for standard output and standard error: 2, 1 where both are one,
  // or 0. They are made before the first Start is passed on.
  int output_streams = 0;
  DialLimits dial;  // its `link` is how long the coordinator may be out of reach
  DialLimits probe{Milliseconds{3000}, Milliseconds{20000}};  // an answer proves presence
  Milliseconds lookup_limit = k_lookup_limit;
  // Time after joining for the first word of the coordinator beyond its own join deadline.
  Milliseconds start_margin{60000};
  // Time for an answer of the coordinator: to a failure, the end of a stop, the wish to stop.
  Milliseconds answer_limit{60000};
};

// Address of the coordinator, or the reason why it is not known; an empty reason: not yet.
using ToldPlace = std::variant<rendezvous::CoordinatorPlace, std::string>;

// Handlers called from the event loop only, never from within start() or send(). All must be set except
// look_at_rendezvous_file if there is none, on_output if no streams are wanted, and show_detail.
struct MemberHooks {
  std::function<NameLookup(const std::string& name)> start_lookup;
  std::function<ToldPlace()> look_at_rendezvous_file;
  // ClientQuestion, Start, Stop, Finish or Refused; the last two are the last.
  std::function<void(const rendezvous::CoordinatorMessage&)> on_message;
  // The coordinator was not found or is lost: a sentence, and a hint that may be empty. Once, and the end.
  std::function<void(const std::string& what, const std::string& hint, rendezvous::ConnectionEnd end)>
      on_lost;
  // Called once after the last message: the coordinator's process has ended, or cannot be reached. May be
  // unset.
  std::function<void()> on_coordinator_ended;
  // Sockets for as many streams as are wanted; none where one of them cannot be had, and why.
  std::function<void(std::vector<Tcp::socket> sockets, const std::string& why)> on_output;
  // The coordinator is found there and knows of this agent; may be unset.
  std::function<void(const std::string& address, int port)> on_joined;
  // The connection to it is open, or is about to be closed; may be unset.
  std::function<void(int socket, bool open)> on_link;
  // It has not answered for so long, or answers again (nothing); may be unset.
  std::function<void(const std::string& coordinator, std::optional<Milliseconds> silence)> on_silence;
  std::function<void(const std::string& text)> show_status;
  std::function<void(const std::string& text)> show_detail;  // each step of the rendezvous
};

class MemberService final : public AgentLink {
 public:
  MemberService(boost::asio::io_context& context, MemberServiceSettings settings, MemberHooks hooks);
  ~MemberService() override;  // closes everything at once; no hook is called any more
  MemberService(const MemberService&) = delete;
  MemberService& operator=(const MemberService&) = delete;

  void start();
  // Passes the result of the launcher's key-value space; ignored once the coordinator is found.
  void on_key_value_space(const ToldPlace& told);
  void send(rendezvous::AgentMessage message) override;
  std::string local_end(const std::string& address) const override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::net
