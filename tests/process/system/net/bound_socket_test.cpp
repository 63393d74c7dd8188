#include "net/tcp_tools.hpp"

#include <cerrno>

#include "catch.hpp"
#include "os/descriptors.hpp"

using namespace ddprun;
using namespace ddprun::net;

TEST_CASE("a port that is kept is nobody else's until it is listened at") {
  const BoundSocket first = keep_port(0);
  REQUIRE(first.error == 0);
  const os::Fd owner(first.descriptor);
  CHECK(keep_port(first.port).error == EADDRINUSE);
  CHECK(bind_port(first.port, 0).error == EADDRINUSE);
  CHECK(begin_listening(first, 1) == 0);
}

TEST_CASE("a port that is bound can be bound by others too, and one of them can listen") {
  const BoundSocket first = bind_port(0, 0);
  REQUIRE(first.error == 0);
  const os::Fd owner(first.descriptor);
  const BoundSocket second = bind_port(first.port, 0);
  REQUIRE(second.error == 0);
  const os::Fd other(second.descriptor);
  CHECK(begin_listening(second, 1) == 0);
  CHECK(begin_listening(first, 1) == EADDRINUSE);
}
