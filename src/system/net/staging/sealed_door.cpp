#include "net/staging/sealed_door.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

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

}  // namespace ddprun::net
