#include "ddprun/app/job_store.hpp"

#include "catch.hpp"
#include "ddprun/net/bound_socket.hpp"
#include "error_text.hpp"

using namespace ddprun;

TEST_CASE("a site's ports are the store's too, as far as they are free") {
  boost::asio::io_context context;
  const BoundSocket taken = bind_port(0, 1);
  REQUIRE(taken.error == 0);
  const Fd owner(taken.descriptor);
  JobStoreSettings settings;
  settings.range = std::pair(taken.port, taken.port);
  JobStore store(context, settings);

  const std::string port = std::to_string(taken.port);
  CHECK(error_of([&] { store.open(Attempt{0}, false); }) ==
        "no free port for the store from " + port + " to " + port +
            ", the site's | widen the range in the site's profile, or choose a --master-port | 125");
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
