#include "inspection/host_condition.hpp"

#include <fstream>

#include "catch.hpp"
#include "fake_root.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("the kernel's log shows the errors of GPUs") {
  const FakeRoot root;
  root.add("/dev/kmsg", test_data("kernel_logs/off-the-bus/kmsg"));
  const check::KernelLog log = inspection::capture_kernel_log(root.path());
  CHECK(log.newest == 1619);
  REQUIRE(log.xids.size() == 2);
  CHECK(log.xids.front().number == 79);
  CHECK(log.xids.front().gpu == "0000:41:00.0");
}

TEST_CASE("a watch of the kernel's log shows what has come since it began") {
  const FakeRoot root;
  const std::string text = test_data("kernel_logs/off-the-bus/kmsg");
  const std::size_t before = text.find("4,1616,");
  root.add("/dev/kmsg", text.substr(0, before));
  inspection::KernelLogWatch watch(root.path());
  CHECK(watch.read().xids.empty());
  std::ofstream(root.path() + "/dev/kmsg", std::ios::app) << text.substr(before);
  REQUIRE(watch.read().xids.size() == 1);
  CHECK(watch.read().xids.front().number == 154);
  CHECK(inspection::KernelLogWatch("/no/such/root").read().xids.empty());
}

TEST_CASE("a log that may not be read has no newest record") {
  const FakeRoot root;
  CHECK(inspection::capture_kernel_log(root.path()).newest == -1);
}
