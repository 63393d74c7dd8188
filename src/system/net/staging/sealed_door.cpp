#include "net/staging/sealed_door.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "net/agent_listener.hpp"
#include "net/authentication.hpp"

namespace ddprun::net {

namespace {

constexpr int k_backlog = 64;

struct Serving {
  int most;
  std::function<void(SealedSocket&)> converse;
  std::atomic<int> served = 0;
};

// In its own thread.
void serve_one(Serving& serving, SealedSocket socket) {
  try {
    serving.converse(socket);
  } catch (const std::exception&) {  // the copy cannot be read, or what it said makes no sense
  }
  --serving.served;
}

// One that has proved itself; it asks another where this host serves enough or cannot start a thread.
void admit(Serving& serving, AuthenticationResult agent) {
  boost::system::error_code error;
  agent.socket.native_non_blocking(true, error);
  const int descriptor = agent.socket.release(error);
  if (error) return;
  SealedSocket socket;
  socket.take_over(TimedSocket(descriptor), agent.keys, agent.text);
  if (serving.served >= serving.most) return void(socket.send(StagePiece::busy));
  ++serving.served;
  try {
    std::thread([&serving, mine = std::move(socket)]() mutable {
      serve_one(serving, std::move(mine));
    }).detach();
  } catch (const std::system_error&) {
    --serving.served;
  }
}

bool is_ipv6(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
         address.ss_family == AF_INET6;
}

}  // namespace

Door open_door(const std::vector<int>& ports, const std::string& secret) {
  for (const int port : ports) {
    const BoundSocket listener = bind_port(port, k_backlog);
    if (listener.error == 0) return {listener, fmt::format("{}/{}", listener.port, secret)};
  }
  return {};
}

void serve_sealed(int listener, const SealedSocket::Proof& proof, int most,
                  std::function<void(SealedSocket&)> converse) {
  Serving serving{most, std::move(converse)};
  boost::asio::io_context context;
  AgentListenerSettings settings;
  settings.bound = BoundSocket{listener, 0, is_ipv6(listener), 0};
  settings.launch_key = proof.launch_key;
  settings.authenticator = make_key_authenticator(derive_key(rendezvous::ProofMethod::given, proof.secret),
                                                  rendezvous::ProofMethod::given);
  settings.handshake_limit = k_stage_handshake;
  const auto door = std::make_shared<AgentListener>(
      context, std::move(settings),
      AgentListenerHooks{[&](AuthenticationResult agent) { admit(serving, std::move(agent)); },
                         [](const std::string&, const std::string&) {},
                         {}});
  door->start();
  context.run();
}

namespace {

constexpr Milliseconds k_connect{5000};

}  // namespace

std::string SealedSocket::connect(const std::string& address, int port, const Proof& proof) {
  socket_ = TimedSocket();
  const std::string problem = socket_.connect(address, port, k_connect);
  return problem.empty() ? shake_hands(proof) : problem;
}

std::string SealedSocket::connect(const staging::Server& server, const std::string& launch_key) {
  const std::size_t slash = std::min(server.door.find('/'), server.door.size());
  const auto port = parse_integer(server.door.substr(0, slash));
  const Proof proof{launch_key, server.door.substr(std::min(slash + 1, server.door.size()))};
  std::string why = server.host + " has no address";
  for (const std::string& address : server.addresses) {
    const std::string problem = connect(address, static_cast<int>(port.value_or(0)), proof);
    if (problem.empty()) return {};
    why = fmt::format("{} cannot be reached at {}: {}", server.host, address, problem);
  }
  return why;
}

void SealedSocket::take_over(TimedSocket connected, const rendezvous::SessionKeys& keys,
                             std::string_view first) {
  socket_ = std::move(connected);
  out_.emplace(keys.send);
  in_.emplace(keys.receive);
  in_->append(first);
}

std::string SealedSocket::shake_hands(const Proof& proof) {
  using State = rendezvous::HandshakeStep::State;
  rendezvous::Handshake handshake(
      rendezvous::HandshakeRole::member, proof.launch_key, make_key_exchange(),
      make_key_authenticator(derive_key(rendezvous::ProofMethod::given, proof.secret),
                             rendezvous::ProofMethod::given));
  const TimePoint deadline = std::chrono::steady_clock::now() + k_stage_handshake;
  const auto left = [deadline] {
    return std::max(std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now()),
                    Milliseconds{0});
  };
  if (!socket_.write(handshake.start(), left())) return "the connection has ended";
  std::array<char, 4096> buffer{};
  while (true) {
    const std::ptrdiff_t count = socket_.read_some(buffer.data(), buffer.size(), left());
    if (count <= 0) return count == 0 ? "no answer" : "the connection has ended";
    const rendezvous::HandshakeStep step = handshake.feed({buffer.data(), static_cast<std::size_t>(count)});
    if (!step.send.empty() && !socket_.write(step.send, left())) return "the connection has ended";
    if (step.state == State::more) continue;
    if (step.state != State::done) return step.text.empty() ? "it is not ddprun" : step.text;
    take_over(std::move(socket_), handshake.keys(), step.text);
    return {};
  }
}

bool SealedSocket::send(StagePiece kind, std::string_view text) {
  plain_.assign(text);
  plain_.push_back(static_cast<char>(kind));  // behind the text, which stays where it is when it is read
  sealed_.clear();
  out_->seal(plain_, sealed_);
  return socket_.write(sealed_, k_stage_silence);
}

std::optional<SealedSocket::Piece> SealedSocket::receive() {
  received_.resize(k_stage_part);
  while (true) {
    auto next = in_->next();
    if (auto* const text = std::get_if<std::string>(&next)) {
      if (text->empty()) return std::nullopt;
      const auto kind = static_cast<StagePiece>(text->back());
      text->pop_back();
      return Piece{kind, std::move(*text)};
    }
    if (std::holds_alternative<rendezvous::CodecError>(next)) return std::nullopt;
    const std::ptrdiff_t count = socket_.read_some(received_.data(), received_.size(), k_stage_silence);
    if (count <= 0) return std::nullopt;
    in_->append({received_.data(), static_cast<std::size_t>(count)});
  }
}

}  // namespace ddprun::net
