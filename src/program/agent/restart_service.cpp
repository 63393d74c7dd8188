#include "agent/restart_service.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "os/process/reaper.hpp"
#include "os/status_socket.hpp"
#include "rendezvous/codec.hpp"

namespace ddprun::agent {

namespace {

constexpr std::size_t k_most_waiting = 64;  // requests whose answer may never come

}  // namespace

void RestartService::serve() {
  const std::string name = os::status_socket_name(::getpid(), os::Asks::restart);
  net::StatusServer::Hooks hooks;
  hooks.may_ask = os::is_of_this_user;
  hooks.requested = [this](int descriptor, const std::string& text, Answer answer) {
    pass_on(descriptor, text, std::move(answer));
  };
  // Anybody may have taken the first; the second cannot be foreseen.
  server_.emplace(context_, std::vector{name, name + "/" + os::make_random_id()}, std::move(hooks));
}

void RestartService::pass_on(int descriptor, const std::string& text, Answer answer) {
  auto decoded = rendezvous::decode_agent_message(text);
  auto* const message = std::get_if<rendezvous::AgentMessage>(&decoded);
  auto* const request = message ? std::get_if<rendezvous::RestartRequest>(message) : nullptr;
  if (request == nullptr) return answer({});
  request->number = ++last_;
  request->sender = fmt::format("{} on {}", os::describe_peer(descriptor, user_), host_);
  if (waiting_.size() >= k_most_waiting) waiting_.erase(waiting_.begin());
  waiting_[last_] = std::move(answer);
  const int number = last_;
  if (ask_(std::move(*message))) return;
  note({number, false, "the coordinator of the job cannot be asked at the moment", "ask again"});
}

void RestartService::note(const rendezvous::RestartReply& reply) {
  if (const auto waiting = waiting_.extract(reply.number); !waiting.empty())
    waiting.mapped()(rendezvous::encode(reply).substr(rendezvous::k_frame_header));
}

}  // namespace ddprun::agent
