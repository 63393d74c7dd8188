// Relays of other agents, and the store that is theirs to ask.
#include "agent/local_store.hpp"

#include <array>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "catch.hpp"
#include "net/dial.hpp"
#include "net/sealed_stream.hpp"
#include "peers/authenticators.hpp"
#include "rendezvous/codec.hpp"
#include "store/tree_message.hpp"

using namespace ddprun;
using namespace ddprun::agent;
namespace asio = boost::asio;

namespace {

Plans plans_with_relays() {
  plan::NodeProposal node;
  node.options.store_tree.form = options::StoreTree::Form::tree;
  node.rendezvous.agents = 2;
  node.rendezvous.key = "a job";
  node.rendezvous.secrets = {{allocation::SecretKind::pmi_shared_secret, "secret", "PMI_SHARED_SECRET"}};
  return {std::make_shared<const plan::NodeProposal>(std::move(node))};
}

template <class Condition>
void run_until(asio::io_context& context, Condition met) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!met()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    context.restart();
    context.run_one_for(Milliseconds{20});
  }
}

net::AuthenticationResult reach(asio::io_context& context, const Plans& plans, int port) {
  std::optional<net::AuthenticationResult> result;
  net::FirstDial dial(context, {{"127.0.0.1"}, port, plans.node->rendezvous.key + "/store"},
                      peers::make_authenticator(plans.node->options, plans.node->rendezvous.secrets, {}),
                      Milliseconds{10000},
                      [&](net::AuthenticationResult reached) { result = std::move(reached); });
  dial.start();
  run_until(context, [&] { return result.has_value(); });
  return std::move(*result);
}

// What has come and was not read yet; nothing where the other side has closed.
std::optional<std::string> read_some(net::Tcp::socket& socket) {
  std::array<char, 4096> bytes;
  const ssize_t size = ::recv(socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size == 0) return std::nullopt;
  return std::string(bytes.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("what a relay sends together with its first word waits for the attempt") {
  asio::io_context context;
  const Plans plans = plans_with_relays();
  const facts::Snapshot snapshot;
  JobStore store(context, {});
  store.open(Attempt{0}, false);
  LocalStore served(context, plans, snapshot, store);
  const int port = served.listen();
  REQUIRE(port > 0);

  auto relay = reach(context, plans, port);
  INFO(relay.text);
  REQUIRE(relay.state == rendezvous::HandshakeStep::State::done);
  std::string asked;
  store::write_message(asked, {.kind = store::TreeMessageKind::want, .key = "missing"});
  store::write_message(asked, {.kind = store::TreeMessageKind::request,
                               .channel = 1,
                               .operation = store::StoreOperation::count_keys});
  net::SealedWriter writer(relay.keys.send);
  asio::write(relay.socket, asio::buffer(writer.seal(rendezvous::make_frame("launch 0")) +
                                         writer.seal(rendezvous::make_frame(asked))));
  context.restart();
  context.run_for(Milliseconds{100});
  CHECK(read_some(relay.socket) == "");

  plan::Assignment attempt;
  attempt.launch_id = "launch";
  CHECK(served.begin_attempt(attempt).empty());
  net::SealedReader reader(relay.keys.receive);
  std::string said = relay.text;
  run_until(context, [&] {
    const auto more = read_some(relay.socket);
    REQUIRE(more);
    reader.append(*more);
    const auto piece = reader.next();
    if (const auto* frame = std::get_if<std::string>(&piece)) said += *frame;
    return !said.empty();
  });
  std::string expected;
  store::write_message(expected, {.kind = store::TreeMessageKind::reply,
                                  .channel = 1,
                                  .number = 1,
                                  .idle = true,
                                  .text = std::string_view("\0\0\0\0\0\0\0\0", 8)});
  CHECK(said == rendezvous::make_frame(expected));
}

TEST_CASE("a relay that has sent nonsense before the attempt is let go when that begins") {
  asio::io_context context;
  const Plans plans = plans_with_relays();
  const facts::Snapshot snapshot;
  JobStore store(context, {});
  store.open(Attempt{0}, false);
  LocalStore served(context, plans, snapshot, store);
  const int port = served.listen();
  auto relay = reach(context, plans, port);
  REQUIRE(relay.state == rendezvous::HandshakeStep::State::done);
  net::SealedWriter writer(relay.keys.send);
  asio::write(relay.socket,
              asio::buffer(writer.seal(rendezvous::make_frame("launch 0")) +
                           writer.seal(rendezvous::make_frame(std::string_view("\1\0\0\0\x7f", 5)))));
  context.restart();
  context.run_for(Milliseconds{100});
  plan::Assignment attempt;
  attempt.launch_id = "launch";
  served.begin_attempt(attempt);
  run_until(context, [&] { return !read_some(relay.socket); });
}
