#include "net/store_server.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "catch.hpp"
#include "store_wire.hpp"

using namespace ddprun;
using namespace ddprun::net;
using namespace store_wire;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::seconds k_deadline{20};
const std::string k_stop(1, '\0');

// A blocking socket of a client; the server runs while something is awaited.
struct Client {
  tcp::socket socket;

  Client(asio::io_context& context, int port, asio::ip::address address = asio::ip::address_v4::loopback(),
         const char* from = nullptr)
      : socket(context) {
    socket.open(address.is_v4() ? tcp::v4() : tcp::v6());
    if (from) socket.bind(tcp::endpoint(asio::ip::make_address(from), 0));
    socket.connect(tcp::endpoint(address, static_cast<std::uint16_t>(port)));
    socket.non_blocking(true);
  }
  void send(const std::string& bytes) { asio::write(socket, asio::buffer(bytes)); }
};

struct Fixture {
  asio::io_context context;
  StoreServerOptions options;
  std::vector<std::string> reports;

  Fixture() {
    options.report = [this](const std::string& text, bool memory) {
      reports.push_back(text + (memory ? " (memory)" : ""));
    };
  }

  // Serves until `done`, and fails the test when that does not come.
  void serve_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + k_deadline;
    while (!done()) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      context.restart();
      context.run_one_for(std::chrono::milliseconds(2));
    }
  }
  std::string receive(Client& client, std::size_t size) {
    std::string bytes;
    serve_until([&] {
      std::string piece(size - bytes.size(), '\0');
      boost::system::error_code error;
      piece.resize(client.socket.read_some(asio::buffer(piece), error));
      if (error && error != asio::error::would_block) FAIL("connection lost: " << error.message());
      bytes += piece;
      return bytes.size() == size;
    });
    return bytes;
  }
  void await_end(Client& client) {
    serve_until([&] {
      char byte;
      boost::system::error_code error;
      client.socket.read_some(asio::buffer(&byte, 1), error);
      return error && error != asio::error::would_block;
    });
  }
  std::string ask(Client& client, const std::string& bytes, std::size_t size) {
    client.send(bytes);
    return receive(client, size);
  }
};

const std::string k_one = number(std::int64_t{1});

}  // namespace

TEST_CASE_METHOD(Fixture, "a store answers and wakes over IPv4 and IPv6") {
  StoreServer server(context, options);
  Client four(context, server.port());
  four.send(k_hello + request(wait, list({"/k"})));
  boost::system::error_code error;
  const auto loopback = asio::ip::address_v6::loopback();
  tcp::socket probe(context);
  probe.connect(tcp::endpoint(loopback, static_cast<std::uint16_t>(server.port())), error);
  Client other(context, server.port(),
               error ? asio::ip::address(asio::ip::address_v4::loopback()) : loopback);
  CHECK(ask(other, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  other.send(request(set, text("/k") + text("value")));
  CHECK(receive(four, 1) == k_stop);
  CHECK(ask(four, request(get, text("/k")), 13) == text("value"));
}

TEST_CASE_METHOD(Fixture, "a half-sent message stalls nobody") {
  StoreServer server(context, options);
  Client half(context, server.port());
  half.send(k_hello + request(set, text("/k") + number(std::uint64_t{100}) + "only some"));
  Client other(context, server.port());
  CHECK(ask(other, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  half.send(std::string(91, 'x') + request(get, text("/k")));
  CHECK(receive(half, 108) == text("only some" + std::string(91, 'x')));
}

TEST_CASE_METHOD(Fixture, "hundreds of connections are woken by one") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  StoreServer server(context, options);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 600; ++i) {
    clients.push_back(std::make_unique<Client>(context, server.port()));
    clients.back()->send(k_hello + request(barrier, text("/b") + number(std::int64_t{601})));
    context.poll();
  }
  Client last(context, server.port());
  CHECK(ask(last, k_hello + request(barrier, text("/b") + number(std::int64_t{601})), 1) == k_stop);
  for (const auto& client : clients) CHECK(receive(*client, 1) == k_stop);
  CHECK(server.connections() == 601);
  clients.clear();
  serve_until([&] { return server.connections() == 1; });
  CHECK(ask(last, request(count_keys), 8) == k_one);
}

TEST_CASE_METHOD(Fixture, "who may not connect is closed before a byte of it is read") {
  options.admit = [](const TcpEnds&) { return Admission::no; };
  StoreServer server(context, options);
  Client stranger(context, server.port());
  await_end(stranger);
  CHECK(server.connections() == 0);
}

TEST_CASE_METHOD(Fixture, "who is asked about waits for the verdict, and nothing it sent is lost") {
  std::vector<TcpEnds> asked;
  options.admit = [&](const TcpEnds& ends) {
    asked.push_back(ends);
    return Admission::wait;
  };
  StoreServer server(context, options);
  Client client(context, server.port());
  client.send(k_hello + request(add, text("/n") + k_one));
  serve_until([&] { return !asked.empty(); });
  CHECK(asked[0].client.address().to_string() == "127.0.0.1");
  CHECK(asked[0].server.port() == server.port());
  CHECK(server.connections() == 0);
  TcpEnds another = asked[0];
  another.client.port(another.client.port() == 1 ? 2 : 1);
  server.decide(another, true);
  CHECK(server.connections() == 0);
  server.decide(asked[0], true);
  CHECK(receive(client, 8) == k_one);

  Client refused(context, server.port());
  serve_until([&] { return asked.size() == 2; });
  server.decide(asked[1], false);
  await_end(refused);
}

TEST_CASE_METHOD(Fixture, "what is no request ends its own connection only") {
  StoreServer server(context, options);
  Client good(context, server.port());
  Client bad(context, server.port());
  CHECK(ask(good, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  bad.send("GET / HTTP/1.0\r\n\r\n");
  await_end(bad);
  CHECK(reports == std::vector<std::string>{"the store closed the connection of 127.0.0.1: unknown request"});
  CHECK(ask(good, request(count_keys), 8) == k_one);
}

TEST_CASE_METHOD(Fixture, "a connection taken over keeps the bytes already read") {
  StoreServer server(context, options);
  tcp::acceptor elsewhere(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Client client(context, elsewhere.local_endpoint().port());
  client.send(request(add, text("/n") + k_one));
  server.adopt(elsewhere.accept(), k_hello + request(set, text("/k") + text("v")) + request(count_keys));
  CHECK(receive(client, 16) == k_one + k_one);
  CHECK(server.connections() == 1);
}

TEST_CASE_METHOD(Fixture, "closing ends the listener and every connection at once") {
  StoreServer server(context, options);
  Client client(context, server.port());
  CHECK(ask(client, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  server.close();
  await_end(client);
  CHECK_THROWS(Client(context, server.port()));
  tcp::acceptor elsewhere(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Client late(context, elsewhere.local_endpoint().port());
  server.adopt(elsewhere.accept(), "");
  await_end(late);
}

TEST_CASE_METHOD(Fixture, "a port in use is an error that names it") {
  StoreServer server(context, options);
  options.port = server.port();
  try {
    StoreServer second(context, options);
    FAIL("two stores on one port");
  } catch (const Error& error) {
    CHECK(error.what() ==
          "the store cannot listen on port " + std::to_string(server.port()) + ": address already in use");
    CHECK(error.hint() == "another program listens there; choose another port or leave the choice to ddprun");
  }
}

TEST_CASE_METHOD(Fixture, "a port can be used again at once after its store has closed") {
  auto first = std::make_unique<StoreServer>(context, options);
  Client client(context, first->port());
  CHECK(ask(client, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  options.port = first->port();
  first->close();
  StoreServer second(context, options);
  Client next(context, second.port());
  CHECK(ask(next, k_hello + request(count_keys), 8) == number(std::int64_t{0}));
}

TEST_CASE_METHOD(Fixture, "a large value goes through a small socket buffer in both directions") {
  StoreServer server(context, options);
  Client client(context, server.port());
  const std::string value(8 * 1024 * 1024, 'x');
  const std::string bytes = k_hello + request(set, text("/k") + text(value)) + request(get, text("/k"));
  std::size_t sent = 0;
  serve_until([&] {
    boost::system::error_code error;
    sent += client.socket.write_some(asio::buffer(bytes) + sent, error);
    return sent == bytes.size();
  });
  CHECK((receive(client, 8 + value.size()) == text(value)));
}

TEST_CASE_METHOD(Fixture, "who does not read its answers is not read from, and gets them all when it does") {
  options.limits.memory = 16 * 1024 * 1024;
  StoreServer server(context, options);
  Client slow(context, server.port());
  slow.send(k_hello + request(set, text("/k") + text(std::string(60000, 'x'))));
  std::string asks;
  for (int i = 0; i < 4000; ++i) asks += request(get, text("/k"));
  slow.send(asks);
  Client other(context, server.port());
  other.send(k_hello);
  for (int i = 1; i <= 200; ++i) {
    CHECK(ask(other, request(add, text("/n") + k_one), 8) == number(std::int64_t{i}));
  }
  CHECK(server.memory_used() < 4 * 1024 * 1024);
  for (int i = 0; i < 4000; ++i) REQUIRE((receive(slow, 60008) == text(std::string(60000, 'x'))));
  CHECK(reports.empty());
}

TEST_CASE_METHOD(Fixture, "who wants more memory than it may have is closed with a sentence, and no other") {
  options.limits.memory = 8 * 1024 * 1024;
  StoreServer server(context, options);
  Client other(context, server.port());
  CHECK(ask(other, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  Client greedy(context, server.port());
  greedy.send(k_hello + request(ping, "\x67\x12" + std::string(2, '\0')));
  const std::string value(1024 * 1024, 'x');
  for (int i = 0; i < 64 && reports.empty(); ++i) {
    const std::string bytes = request(set, text("/" + std::to_string(i)) + text(value));
    std::size_t sent = 0;
    serve_until([&] {
      boost::system::error_code error;
      sent += greedy.socket.write_some(asio::buffer(bytes) + sent, error);
      return sent == bytes.size() || !reports.empty();
    });
  }
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].starts_with("the store closed the connection of process 4711 on 127.0.0.1: it holds "));
  CHECK(server.connections() == 1);
  CHECK(ask(other, request(add, text("/n") + k_one), 8) == number(std::int64_t{2}));
}

TEST_CASE_METHOD(Fixture, "idle connections of one host leave room for another's") {
  options.max_connections = 40;
  options.admit = [](const TcpEnds&) { return Admission::yes; };
  StoreServer server(context, options);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 60; ++i) idle.push_back(std::make_unique<Client>(context, server.port()));
  serve_until([&] { return reports.size() == 30; });
  CHECK(server.connections() == 30);
  CHECK(reports[0] == "the store refused a connection of 127.0.0.1: it has 30 already, of 40 for all hosts");
  Client worker(context, server.port(), asio::ip::make_address("127.0.0.1"), "127.0.0.2");
  CHECK(ask(worker, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  idle.clear();
  serve_until([&] { return server.connections() == 1; });
  Client again(context, server.port());
  CHECK(ask(again, k_hello + request(add, text("/n") + k_one), 8) == number(std::int64_t{2}));
}

TEST_CASE_METHOD(Fixture, "four clients that pipeline costly requests slow another only so much") {
  StoreServer server(context, options);
  Client worker(context, server.port());
  worker.send(k_hello);
  constexpr int k_keys = 2000;
  for (int i = 0; i < k_keys; ++i) worker.send(request(set, text("/" + std::to_string(i)) + text("v")));
  CHECK(ask(worker, request(count_keys), 8) == number(std::int64_t{k_keys}));
  std::string lists = k_hello;
  for (int i = 0; i < 30000; ++i) lists += request(list_keys);
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 4; ++i) {
    busy.push_back(std::make_unique<Client>(context, server.port()));
    busy.back()->send(lists);
  }
  std::size_t read = 0;
  std::string piece(1024 * 1024, '\0');
  const auto drain = [&] {
    for (const auto& each : busy) {
      boost::system::error_code error;
      read += each->socket.read_some(asio::buffer(piece), error);
    }
  };
  constexpr int k_requests = 300;
  for (int i = 1; i <= k_requests; ++i) {
    worker.send(request(add, text("/n") + k_one));
    std::string answer(8, '\0');
    std::size_t received = 0;
    serve_until([&] {
      drain();
      boost::system::error_code error;
      received += worker.socket.read_some(asio::buffer(answer) + received, error);
      return received == answer.size();
    });
  }
  const std::size_t list = 8 + k_keys * 12;  // 24 KB, about
  INFO(read / list << " lists");
  CHECK(read / list < 25 * k_requests);
  serve_until([&] {
    const std::size_t before = read;
    drain();
    return read > before;
  });
}

TEST_CASE_METHOD(Fixture, "a reset connection is forgotten") {
  StoreServer server(context, options);
  auto client = std::make_unique<Client>(context, server.port());
  CHECK(ask(*client, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  client->send(request(wait, list({"/never"})));
  client->socket.set_option(asio::socket_base::linger(true, 0));
  client.reset();
  serve_until([&] { return server.connections() == 0; });
}

TEST_CASE_METHOD(Fixture, "without descriptors left the store waits for one") {
  StoreServer server(context, options);
  Client first(context, server.port());
  CHECK(ask(first, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  auto second = std::make_unique<Client>(context, server.port());
  second->send(k_hello + request(count_keys));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  serve_until([&] { return !reports.empty(); });
  CHECK(ask(first, request(count_keys), 8) == k_one);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(reports[0] == "the store cannot accept more than its 1 connections for now: too many open files");
  CHECK(receive(*second, 8) == k_one);
}

TEST_CASE_METHOD(Fixture, "an idle store has nothing to do") {
  StoreServer server(context, options);
  Client client(context, server.port());
  CHECK(ask(client, k_hello + request(add, text("/n") + k_one), 8) == k_one);
  context.restart();
  context.poll();
  CHECK(context.poll() == 0);
}

TEST_CASE("a store may go before its context runs again") {
  asio::io_context context;
  {
    StoreServer server(context, {});
    Client client(context, server.port());
    client.send(k_hello);
  }
  context.run();
}
