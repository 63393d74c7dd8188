#include "net/staging/stage_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "net/agent_listener.hpp"
#include "net/authenticator.hpp"

namespace ddprun::net {

namespace {

struct Serving {
  std::vector<StagedItem>& items;
  OpenStaged open;
  std::atomic<int> served = 0;
};

// Waits until `enough` holds; false when the other one does not listen any more, or there is a failure, which
// it is told.
template <class Enough>
bool wait_for(const StagedItem& item, SealedSocket& socket, StagedItem::View& view, const Enough& enough) {
  while (true) {
    view = item.wait(k_stage_sign_of_life, enough);
    if (!view.failure.empty()) return socket.send(StagePiece::failed, view.failure), false;
    if (enough(view)) return true;
    if (!socket.send(StagePiece::keep_waiting)) return false;
  }
}

void serve_list(const StagedItem& item, SealedSocket& socket) {
  StagedItem::View view;
  if (!wait_for(item, socket, view, [](const StagedItem::View& each) { return each.list != nullptr; }))
    return;
  std::string_view rest = *view.list;
  while (!rest.empty()) {
    if (!socket.send(StagePiece::list, rest.substr(0, k_stage_part))) return;
    rest.remove_prefix(std::min(rest.size(), k_stage_part));
  }
  socket.send(StagePiece::end);
}

void serve_contents(const StagedItem& item, std::uint64_t offset, const OpenStaged& open,
                    SealedSocket& socket) {
  StagedItem::View view;
  ReadStaged read;
  while (wait_for(item, socket, view, [&](const StagedItem::View& each) {
    return each.available > offset || !each.digest.empty();
  })) {
    if (view.available <= offset) return void(socket.send(StagePiece::end, view.digest));
    if (!read) read = open(view);
    std::string text;
    staging::put_number(text, view.available);
    const std::string bytes = read(
        offset, static_cast<std::size_t>(std::min<std::uint64_t>(k_stage_part, view.available - offset)));
    offset += bytes.size();
    if (!socket.send(StagePiece::contents, text + bytes)) return;
  }
}

void converse(Serving& serving, SealedSocket& socket) {
  const auto asked = socket.receive();
  if (!asked) return;
  staging::Parts parts(asked->text);
  const std::uint64_t number = parts.number();
  if (number >= serving.items.size()) return;
  const StagedItem& item = serving.items[number];
  if (asked->kind == StagePiece::list_wanted) return serve_list(item, socket);
  if (asked->kind != StagePiece::contents_wanted) return;
  serve_contents(item, parts.number(), serving.open, socket);
}

// In its own thread.
void serve_one(Serving& serving, SealedSocket socket) {
  try {
    converse(serving, socket);
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
  if (serving.served >= k_most_served) return void(socket.send(StagePiece::busy));
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

void serve_staged(int listener, const SealedSocket::Proof& proof, std::vector<StagedItem>& items,
                  OpenStaged open) {
  Serving serving{items, std::move(open)};
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
