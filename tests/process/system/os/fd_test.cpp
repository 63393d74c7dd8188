#include "os/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "catch.hpp"

using ddprun::os::Fd;

TEST_CASE("a descriptor is closed once, by its last owner") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  Fd reader(ends[0]);
  {
    Fd writer(ends[1]);
    Fd moved(std::move(writer));
    CHECK(moved.get() == ends[1]);
  }
  char byte = 0;
  CHECK(::read(reader.get(), &byte, 1) == 0);  // end of file: the writer is gone
}
