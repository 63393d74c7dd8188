// The records of tests/data/kernel_logs, and what is told from others.
#include "check/xid.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "catch.hpp"
#include "check/finding.hpp"
#include "check/record_fields.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::check;

namespace {

KernelLog read_log(const std::string& text) {
  KernelLog log;
  for (const std::string& line : split(text, '\n')) note_kernel_record(line, log);
  return log;
}

std::string describe(const KernelLog& log) {
  std::string text = fmt::format("newest {}\n", log.newest);
  for (const Xid& xid : log.xids) {
    text += fmt::format("{} {:.3f} {} {} {}\n", xid.sequence, xid.time, xid.gpu, xid.number,
                        find_hardware_fault(xid)->what);
  }
  return text;
}

HostRecord node_with(KernelLog log) {
  HostRecord record;
  record.host = "n1";
  record.gpus.resize(1);
  record.gpus.front().address = "0000:41:00.0";
  record.kernel_log = std::move(log);
  return record;
}

// "what; fix", each finding a line.
std::string judged(const HostRecord& before, const HostRecord& now) {
  std::vector<Finding> findings;
  judge_change(before, now, findings);
  std::string all;
  for (const Finding& each : findings) {
    CHECK((each.mark == Mark::error && each.subject == "GPU"));
    all += each.what + "; " + each.fix + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("the errors whose cause is hardware are kept, the newest of each kind") {
  for (const char* name : {"off-the-bus", "ecc-and-mig", "no-gpu"}) {
    const std::string folder = std::string("kernel_logs/") + name;
    INFO(folder);
    CHECK(describe(read_log(test_data(folder + "/kmsg"))) == test_data(folder + "/expected"));
  }
}

TEST_CASE("an Xid has what its record says") {
  const auto xid = parse_xid("4,9,1500000,-;NVRM: Xid (PCI:0008:01:00): 79, pid=1, name=\x1bx, GPU lost.");
  REQUIRE(xid);
  CHECK(xid->number == 79);
  CHECK(xid->gpu == "0008:01:00.0");
  CHECK(xid->sequence == 9);
  CHECK(xid->time == 1.5);
  CHECK(xid->text == "pid=1, name=\\x1bx, GPU lost.");
  CHECK(parse_xid("4,9,1500000,-;NVRM: Xid (PCI:0000:01:00): 79")->text.empty());
  const KernelLog log = read_log("4,9,1500000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU lost.");
  CHECK(describe(parse_json_text<KernelLog>(render_json_text(log))) == describe(log));
}

TEST_CASE("what is no Xid of the kernel's is none") {
  for (const char* record :
       {"", ";", "4,9,1500000,-", "NVRM: Xid (PCI:0000:01:00): 79, x",
        "4,9,-;NVRM: Xid (PCI:0000:01:00): 79, x", "4,9,1,-;NVRM: Xid (PCI:0000:01:00: 79, x",
        "4,9,1,-;NVRM: Xid (PCI:0000:01:00): seventy, x",
        "4,9,1,-;NVRM: Xid (PCI:0000:01:00): 99999999999999999999, x",
        "4,x,1,-;NVRM: Xid (PCI:0000:01:00): 79, x", "12,9,1,-;NVRM: Xid (PCI:0000:01:00): 79, x",
        "4,9,1,-;audit: NVRM: Xid (PCI:0000:01:00): 79, x"}) {
    INFO(record);
    CHECK_FALSE(parse_xid(record));
  }
}

TEST_CASE("a log that repeats itself on many GPUs is kept within limits") {
  KernelLog log;
  for (int i = 0; i < 1000; ++i)
    note_kernel_record(fmt::format("4,{},1,-;NVRM: Xid (PCI:{:04x}:01:00): 79, x", i, i), log);
  CHECK(log.xids.size() == 64);
  CHECK(log.xids.back().sequence == 999);
}

TEST_CASE("only what has come since the job began counts, on GPUs that it may ask for") {
  const KernelLog all = read_log(test_data("kernel_logs/off-the-bus/kmsg"));
  KernelLog begun;
  begun.newest = 1610;
  CHECK(judged(node_with(begun), node_with(all)) ==
        "GPU 0000:41:00.0: Xid 79, it fell off the bus; have the site reboot the node; leave it out until "
        "then\n"
        "GPU 0000:41:00.0: Xid 154, its driver asks for a reset; have the site do what its Xid 154 in the "
        "kernel's "
        "log asks for; leave the node out until then\n");
  CHECK(judged(node_with(all), node_with(all)).empty());
  CHECK(judged(node_with({}), node_with(all)).empty());  // not known what is new
  HostRecord other = node_with(begun), now = node_with(all);
  other.gpus.front().address = now.gpus.front().address = "0000:c1:00.0";
  CHECK(judged(other, now).empty());
}
