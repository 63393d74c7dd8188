// When ddprun finds that no worker uses the store it hosts.
#include <boost/asio/ip/tcp.hpp>
#include <chrono>

#include "agent/job_store.hpp"
#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

struct Served {
  Served() {
    settings.silence = Milliseconds{1};
    settings.on_silence = [this] { ++said; };
  }
  void connect(int port, const JobStore& store) {
    boost::asio::ip::tcp::socket socket(context);
    socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (store.unused()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      context.restart();
      context.run_one_for(Milliseconds{50});
    }
  }
  boost::asio::io_context context;
  JobStoreSettings settings;
  int said = 0;
};

}  // namespace

TEST_CASE("a store that nobody reaches is spoken of once for all attempts") {
  Served served;
  JobStore store(served.context, served.settings);
  store.open(Attempt{0}, false);
  while (served.said == 0) served.context.run_one();
  store.open(Attempt{1}, false);
  served.context.run_for(Milliseconds{50});
  CHECK(served.said == 1);
  CHECK(store.unused());
  store.close();
  CHECK(store.unused());
}

TEST_CASE("a store that a worker has reached is in use, also after its end") {
  Served served;
  served.settings.silence = Milliseconds{60000};
  JobStore store(served.context, served.settings);
  served.connect(store.open(Attempt{0}, false), store);
  CHECK_FALSE(store.unused());
  store.close();
  CHECK_FALSE(store.unused());
  store.open(Attempt{1}, false);
  CHECK(store.unused());
}

TEST_CASE("of a store that a worker hosts nothing is known") {
  Served served;
  JobStore store(served.context, served.settings);
  store.open(Attempt{0}, true);
  served.context.run_for(Milliseconds{50});
  CHECK(served.said == 0);
  CHECK_FALSE(store.unused());
}

TEST_CASE("a taken port is answered with the hint of where it was asked for") {
  Served served;
  JobStore first(served.context, served.settings);
  served.settings.port = first.open(Attempt{0}, false);
  served.settings.port_hint = "choose another MASTER_PORT";
  JobStore second(served.context, served.settings);
  try {
    second.open(Attempt{0}, false);
    FAIL("the port was free");
  } catch (const Error& error) {
    CHECK(error.hint() == "choose another MASTER_PORT");
  }
}
