// serve_store [PORT [2.0|2.1|-] [RELAYS]]: hosts a store and relays below each other, prints the last one's
// port, and ends when standard input does.
#include <fmt/core.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "net/authentication.hpp"
#include "net/connection.hpp"
#include "net/store_server.hpp"

namespace {

using namespace ddprun;
using Servers = std::vector<std::unique_ptr<net::StoreServer>>;

std::shared_ptr<net::Connection> connect(net::Tcp::socket socket, const rendezvous::SessionKeys& keys,
                                         net::StoreServer& server, std::function<void(std::string)> hear,
                                         std::function<void()> drained) {
  auto connection = std::make_shared<net::Connection>(std::move(socket), keys);
  net::Connection::Hooks hooks;
  hooks.on_frame = [&server, hear = std::move(hear)](const std::string& payload) {
    hear(payload);
    server.flush();
  };
  hooks.on_closed = [](const std::string&, rendezvous::ConnectionEnd) {};
  hooks.on_drained = [&server, drained = std::move(drained)] {
    drained();
    server.flush();
  };
  connection->start(std::move(hooks), {});
  return connection;
}

void add_relay(boost::asio::io_context& context, net::StoreServerOptions options, Servers& servers) {
  net::StoreServer& above = *servers.back();
  options.relay = true;
  servers.push_back(std::make_unique<net::StoreServer>(context, options));
  net::StoreServer& relay = *servers.back();
  net::Tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  net::Tcp::socket below(context), upper(context);
  below.connect(acceptor.local_endpoint());
  acceptor.accept(upper);
  const auto one = net::make_random_key(), other = net::make_random_key();
  auto link = std::make_shared<store::StoreLink>();
  *link = above.links().add_child(connect(
      std::move(upper), {.receive = other, .send = one}, above,
      [&above, link](const std::string& bytes) { above.links().hear(*link, bytes); },
      [&above, link] { above.links().note_drained(*link); }));
  relay.links().set_parent(connect(
      std::move(below), {.receive = one, .send = other}, relay,
      [&relay](const std::string& bytes) { relay.links().hear(store::k_parent_link, bytes); },
      [&relay] { relay.links().note_drained(store::k_parent_link); }));
}

}  // namespace

int main(int argc, char** argv) {
  namespace asio = boost::asio;
  ddprun::net::StoreServerOptions options;
  if (argc > 1) options.port = static_cast<int>(ddprun::parse_integer(argv[1]).value_or(0));
  if (argc > 2 && argv[2] != std::string_view("-")) {
    const bool newest = std::string_view(argv[2]) == "2.1";
    options.old_dialect =
        newest ? ddprun::store::StoreDialect::torch_2_1 : ddprun::store::StoreDialect::torch_2_0;
  }
  options.report = [](const std::string& text, bool) { fmt::print(stderr, "{}\n", text); };
  try {
    asio::io_context context;
    Servers servers;
    servers.push_back(std::make_unique<net::StoreServer>(context, options));
    const auto relays = argc > 3 ? parse_integer(argv[3]).value_or(0) : 0;
    for (int i = 0; i < relays; ++i) add_relay(context, options, servers);
    fmt::print("{}\n", servers.back()->port());
    std::fflush(stdout);
    asio::posix::stream_descriptor input(context, 0);
    std::array<char, 64> ignored;
    input.async_read_some(asio::buffer(ignored), [&](const auto&, std::size_t) {
      for (const auto& server : servers) server->close();
    });
    context.run();
  } catch (const ddprun::Error& error) {
    fmt::print(stderr, "serve_store: {}\nhint: {}\n", error.what(), error.hint());
    return error.exit_code();
  }
  return 0;
}
