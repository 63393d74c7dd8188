// Real connections over loopback, looked up in this host's kernel.
#include "net/socket_owner.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::net;
namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

struct Pair {
  explicit Pair(const char* address)
      : listener(context, {asio::ip::make_address(address), 0}), client(context), server(context) {
    client.connect(listener.local_endpoint());
    listener.accept(server);
  }
  TcpEnds ends() { return ends_of(server.native_handle()).value(); }

  asio::io_context context;
  Tcp::acceptor listener;
  Tcp::socket client;
  Tcp::socket server;
};

// A listener of both families, as the store's: it sees IPv4 clients as mapped addresses.
struct MappedPair {
  MappedPair() : listener(context, Tcp::endpoint(Tcp::v6(), 0)), client(context), server(context) {
    client.connect({asio::ip::address_v4::loopback(), listener.local_endpoint().port()});
    listener.accept(server);
  }
  asio::io_context context;
  Tcp::acceptor listener;
  Tcp::socket client;
  Tcp::socket server;
};

}  // namespace

TEST_CASE("a connection of this user is its own, and of another user's it is not") {
  Pair pair("127.0.0.1");
  CHECK(find_holder(pair.ends(), ::geteuid()) == rendezvous::Holder::own);
  if (::geteuid() != 0) CHECK(find_holder(pair.ends(), ::geteuid() + 1) == rendezvous::Holder::foreign);
  Pair six("::1");
  CHECK(find_holder(six.ends(), ::geteuid()) == rendezvous::Holder::own);
  MappedPair mapped;
  const TcpEnds ends = ends_of(mapped.server.native_handle()).value();
  CHECK(ends.client.address().to_string() == "127.0.0.1");
  CHECK(find_holder(ends, ::geteuid()) == rendezvous::Holder::own);
}

TEST_CASE("the process of another user is foreign") {
  if (::geteuid() != 0) SKIP("needs root to become another user");
  asio::io_context context;
  Tcp::acceptor listener(context, {asio::ip::make_address("127.0.0.1"), 0});
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    asio::io_context own;
    Tcp::socket client(own);
    boost::system::error_code error;
    client.connect(listener.local_endpoint(), error);
    ::pause();
  }
  Tcp::socket server(context);
  listener.accept(server);
  const TcpEnds ends = ends_of(server.native_handle()).value();
  CHECK(find_holder(ends, 0) == rendezvous::Holder::foreign);
  CHECK(find_holder(ends, 65534) == rendezvous::Holder::own);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

// The kernel says 0, root, of a socket that nobody holds any more.
TEST_CASE("a client that has closed its socket has no holder") {
  Pair pair("127.0.0.1");
  const TcpEnds ends = pair.ends();
  asio::write(pair.client, asio::buffer("rest", 4));
  pair.client.close();
  CHECK(find_holder(ends, ::geteuid()) == rendezvous::Holder::elsewhere);
  CHECK(find_holder(ends, 0) == rendezvous::Holder::elsewhere);
}

TEST_CASE("a connection that is not there is elsewhere") {
  const TcpEnds ends{{asio::ip::make_address("192.0.2.1"), 4711},
                     {asio::ip::make_address("192.0.2.2"), 29500}};
  CHECK(find_holder(ends, ::geteuid()) == rendezvous::Holder::elsewhere);
}

TEST_CASE("the kernel's tables say the same as its answers") {
  const auto row_of = [](const char* path, const TcpEnds& ends) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return find_in_socket_table(text, ends.client, ends.server);
  };
  Pair pair("127.0.0.1");
  auto row = row_of("/proc/net/tcp", pair.ends());
  REQUIRE(row);
  CHECK(row->user == ::geteuid());
  CHECK(row->open);
  Pair six("::1");
  row = row_of("/proc/net/tcp6", six.ends());
  REQUIRE(row);
  CHECK(row->open);
  CHECK_FALSE(row_of("/proc/net/tcp", six.ends()));
  pair.client.close();
  row = row_of("/proc/net/tcp", pair.ends());
  CHECK((!row || !row->open));
}

TEST_CASE("a torn table has no row") {
  const Tcp::endpoint local{asio::ip::make_address("127.0.0.1"), 0xa1b2};
  const Tcp::endpoint remote{asio::ip::make_address("127.0.0.1"), 0x5000};
  const std::string whole =
      "  sl  local_address rem_address   st\n"
      "   0: 0100007F:A1B2 0100007F:5000 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 x\n";
  const auto row = find_in_socket_table(whole, local, remote);
  REQUIRE(row);
  CHECK(row->user == 1000);
  CHECK(row->open);
  for (std::size_t size = 0; size < whole.find(" 77"); ++size)
    CHECK_FALSE(find_in_socket_table(whole.substr(0, size), local, remote));
}

TEST_CASE("connections of a process to other addresses are listed with what the kernel counts") {
  Pair other("127.0.0.2");  // the client's end is 127.0.0.1
  Pair same("127.0.0.1");
  const auto find = [] {
    for (const slow::Connection& connection : list_connections({::getpid()})) {
      if (connection.peer == "127.0.0.2") return connection;
    }
    return slow::Connection{};
  };
  const std::string sent(64 << 20, 'x');
  slow::Connection found;
  std::int64_t all = 0;
  while (found.busy == 0) {  // the kernel counts it in ticks of some milliseconds
    std::thread reader([&] {
      std::string received(sent.size(), ' ');
      asio::read(other.server, asio::buffer(received));
    });
    all += static_cast<std::int64_t>(asio::write(other.client, asio::buffer(sent)));
    reader.join();
    found = find();
  }
  while (found.acked < all) found = find();  // the last acknowledgement may be on its way
  CHECK(found.id > 0);
  CHECK(found.acked <= all + 1);
  CHECK(found.round_trip > 0);
  CHECK(found.segment > 500);
  CHECK(found.resent < all);
  CHECK(list_connections({::getpid()}).size() == 2);  // both ends of it, and none of the other pair
  CHECK(list_connections({}).empty());
  CHECK(list_connections({1 << 30}).empty());
}
