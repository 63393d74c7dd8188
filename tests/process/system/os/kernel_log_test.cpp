#include "os/machine/kernel_log.hpp"

#include "catch.hpp"
#include "fake_root.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("the kernel's log shows the errors of GPUs") {
  const FakeRoot root;
  root.add("/dev/kmsg", test_data("kernel_logs/off-the-bus/kmsg"));
  const check::KernelLog log = capture_kernel_log(root.path());
  CHECK(log.newest == 1619);
  REQUIRE(log.xids.size() == 2);
  CHECK(log.xids.front().number == 79);
  CHECK(log.xids.front().gpu == "0000:41:00.0");
}

TEST_CASE("a log that may not be read has no newest record") {
  const FakeRoot root;
  CHECK(capture_kernel_log(root.path()).newest == -1);
}
