#include "agent/job_store.hpp"

#include "catch.hpp"
#include "console/console.hpp"
#include "error_text.hpp"
#include "net/tcp_tools.hpp"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a site's ports are the store's too, as far as they are free") {
  boost::asio::io_context context;
  const net::BoundSocket taken = net::bind_port(0, 1);
  REQUIRE(taken.error == 0);
  const os::Fd owner(taken.descriptor);
  JobStoreSettings settings;
  settings.range = std::pair(taken.port, taken.port);
  JobStore store(context, settings);

  const std::string port = std::to_string(taken.port);
  CHECK(
      error_of([&] { store.open(Attempt{0}, false); }) ==
      "no port of the site's range, " + port + " to " + port +
          ", is free for the store | widen the range in the site's profile, or choose a --master-port | 125");
}

TEST_CASE("attempts take turns on the named port and those after it, and never run off the end") {
  boost::asio::io_context context;
  JobStoreSettings settings;
  settings.port = 65533;
  JobStore store(context, settings);
  for (const bool worker_hosts : {false, true}) {
    for (int attempt = 0; attempt < 7; ++attempt) {
      CAPTURE(worker_hosts, attempt);
      const int port = store.open(Attempt{attempt}, worker_hosts);
      CHECK((port >= 65533 && port <= 65535));
    }
  }
  settings.port = 41500;
  JobStore wide(context, settings);
  for (const int attempt : {1, 63, 64, 200, 9900}) {
    CAPTURE(attempt);
    const int port = wide.open(Attempt{attempt}, false);
    CHECK((port >= 41500 && port < 41500 + k_port_span));
  }
}

TEST_CASE("no attempt gets the port of the one before it, also where a port between them is taken") {
  boost::asio::io_context context;
  const net::BoundSocket taken = net::bind_port(0, 1);
  REQUIRE(taken.error == 0);
  const os::Fd owner(taken.descriptor);
  JobStoreSettings settings;
  settings.port = taken.port - 1;
  JobStore store(context, settings);
  const int first = store.open(Attempt{1}, false);
  const int second = store.open(Attempt{2}, false);
  CAPTURE(taken.port, first, second);
  CHECK(first != taken.port);
  CHECK(second != first);
}

TEST_CASE("where the named port and those after it are taken, a restart takes any free one and says so") {
  boost::asio::io_context context;
  const net::BoundSocket taken = net::bind_port(65535, 1);
  REQUIRE(taken.error == 0);
  const os::Fd owner(taken.descriptor);
  JobStoreSettings settings;
  settings.port = 65535;
  JobStore store(context, settings);
  std::string said;
  console::route_log([&](const std::string& lines) { said += lines; });
  const int port = store.open(Attempt{1}, false);
  console::route_log({});
  CHECK((port > 0 && port != 65535));
  CHECK(said == "ddprun: no port from 65535 to 65535 is free for the store, so it listens on " +
                    std::to_string(port) +
                    "\nhint: choose another --master-port if a firewall is in between\n");
}

TEST_CASE("attempts and kept ports stay within a site's ports") {
  boost::asio::io_context context;
  JobStoreSettings settings;
  settings.range = std::pair(41000, 41999);
  JobStore store(context, settings);
  const auto inside = [](int port) { return port >= 41000 && port <= 41999; };
  CHECK(inside(store.open(Attempt{0}, false)));
  CHECK(inside(store.open(Attempt{1}, false)));
  const std::vector<int> kept = store.keep_ports(3);
  REQUIRE(kept.size() == 3);
  for (const int port : kept) CHECK(inside(port));
  CHECK(kept[0] != kept[1]);
  CHECK(kept[1] != kept[2]);
}
