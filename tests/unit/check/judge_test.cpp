#include "check/finding.hpp"
#include "check/record_fields.hpp"
#include "check/render_check.hpp"

#include <functional>

#include "../../support/catch.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::check {
namespace {

constexpr std::uint64_t k_gibi = std::uint64_t{1} << 30;

HostRecord sound_node(int number, int nodes) {
  HostRecord record;
  record.rank = 4 * number;
  record.host = "n" + std::to_string(number + 1);
  record.address = "10.0.0." + std::to_string(number + 1);
  record.addresses = {record.address};
  record.interfaces = {"lo", "hsn0"};
  record.interface = "hsn0";
  record.mtu = 9000;
  record.versions = {{"ddprun", "0.2.0"}, {"kernel", "6.1.0"}, {"Python", "3.11"}, {"torch", "2.13.0"}};
  record.workers = 4;
  record.cpus = record.online_cpus = 64;
  record.memory = record.free_memory = 256 * k_gibi;
  record.infiniband = true;
  record.limits = {{"nofile", 4096}, {"nproc", 100000}, {"memlock", k_unlimited}};
  record.folders = {{"temporary files", "/tmp", 100 * k_gibi, 50 * k_gibi, 1e9, ""},
                    {"shared memory", "/dev/shm", 128 * k_gibi, 128 * k_gibi, 0, ""}};
  record.name_addresses = {record.address};
  record.visible_gpus = 1;
  record.gpus = {
      {"0000:c1:00.0", "NVIDIA H100", 80 * k_gibi, 1 << 20, 0, 0, false, false, {}, 16, 16, 18, 0}};
  record.clock_uncertainty = 1e-5;
  const int next = (number + 1) % nodes;
  record.connections = {{4 * next,
                         "n" + std::to_string(next + 1),
                         "10.0.0." + std::to_string(next + 1),
                         41000,
                         2e-5,
                         2.5e9,
                         9000,
                         "",
                         false,
                         {"10.0.0." + std::to_string(next + 1)}}};
  return record;
}

std::vector<HostRecord> sound_nodes(int count = 4) {
  std::vector<HostRecord> records;
  for (int number = 0; number < count; ++number) records.push_back(sound_node(number, count));
  return records;
}

struct Fault {
  Mark mark;
  std::string sentence;  // "hosts: subject: what"
  std::function<void(HostRecord& second)> make;
};

std::string sentence_of(const Finding& finding) {
  return join(finding.hosts, ",") + ": " + finding.subject + ": " + finding.what;
}

const Fault k_faults[] = {
    {Mark::error,
     "n2: shared memory: /dev/shm has 1 MiB free of 64 MiB; data loaders and NCCL share memory there and end "
     "with SIGBUS when it is full",
     [](HostRecord& node) {
       node.folders[1].size = 64 << 20;
       node.folders[1].free = 1 << 20;
     }},
    {Mark::warning,
     "n2: shared memory: /dev/shm has 64 MiB free of 64 MiB; data loaders and NCCL share memory there and "
     "end with SIGBUS when it is full",
     [](HostRecord& node) { node.folders[1].size = node.folders[1].free = 64 << 20; }},
    {Mark::error, "n2: disk: cannot write to /tmp (temporary files): read-only file system",
     [](HostRecord& node) { node.folders[0].problem = "read-only file system"; }},
    {Mark::warning,
     "n2: disk: cannot write to /nonexist (temporary files): no such file or directory; a job would use /tmp "
     "instead",
     [](HostRecord& node) {
       node.folders[0].path = "/nonexist";
       node.folders[0].problem = "no such file or directory";
       node.folders.push_back({k_beside_tmpdir, "/tmp", 100 * k_gibi, 50 * k_gibi, 0, ""});
     }},
    {Mark::error, "n2: disk: /tmp (temporary files) has 1 MiB free of 100.0 GiB",
     [](HostRecord& node) { node.folders[0].free = 1 << 20; }},
    {Mark::warning, "n2: disk: writing to /tmp (temporary files) is slower than 1 MiB per second",
     [](HostRecord& node) { node.folders[0].write_rate = 1e5; }},
    {Mark::warning,
     "n2: limits: a process may open 64 files (ulimit -n); data loaders and connections between ranks need "
     "more",
     [](HostRecord& node) { node.limits["nofile"] = 64; }},
    {Mark::error,
     "n2: limits: a process may open 35 files (ulimit -n); data loaders and connections between ranks need "
     "more",
     [](HostRecord& node) { node.limits["nofile"] = 35; }},
    {Mark::warning, "n2: limits: the user may have 100 processes and threads (ulimit -u)",
     [](HostRecord& node) { node.limits["nproc"] = 100; }},
    {Mark::error,
     "n2: limits: a process may lock 8 MiB of memory (ulimit -l), and RDMA registers what it sends",
     [](HostRecord& node) { node.limits["memlock"] = 8 << 20; }},
    {Mark::warning, "n2: CPUs: 4 workers share 1.5 of the node's 64 CPUs",
     [](HostRecord& node) { node.cpu_quota = 1.5; }},
    {Mark::warning, "n2: memory: 1.0 GiB of memory are free for 4 workers",
     [](HostRecord& node) { node.free_memory = k_gibi; }},
    {Mark::error, "n2: names: its own name resolves to 127.0.1.1, an address that no other node reaches",
     [](HostRecord& node) { node.name_addresses = {"127.0.1.1"}; }},
    {Mark::warning, "n2: names: its own name resolves to 127.0.1.1, an address that no other node reaches",
     [](HostRecord& node) {
       node.name_addresses = {"127.0.1.1"};
       node.variables["GLOO_SOCKET_IFNAME"] = "hsn0";
     }},
    {Mark::error, "n2: names: the node's own name n2 does not resolve there",
     [](HostRecord& node) { node.name_addresses.clear(); }},
    {Mark::error, "n2: names: its own name resolves to 10.9.9.9, which none of its interfaces has",
     [](HostRecord& node) { node.name_addresses = {"10.9.9.9"}; }},
    {Mark::warning,
     "n2: names: its own name resolves to the IPv6 address fd00::9 first, which none of its interfaces has",
     [](HostRecord& node) { node.name_addresses.insert(node.name_addresses.begin(), "fd00::9"); }},
    {Mark::warning, "n2: names: the name n3 resolves to 10.9.9.9 there, which is not that node",
     [](HostRecord& node) { node.connections[0].name_addresses = {"10.9.9.9"}; }},
    {Mark::warning, "n2: names: the name service needs 5 s or more for the name of the node's own address",
     [](HostRecord& node) { node.reverse_time = 5.2; }},
    {Mark::warning, "n2: names: /etc/resolv.conf searches 9 domains for each short name",
     [](HostRecord& node) { node.search_domains = 9; }},
    {Mark::error, "n2: connection: cannot connect to n3 (10.0.0.3), port 41000: no answer within 3 s",
     [](HostRecord& node) {
       node.connections[0].problem = "no answer within 3 s";
       node.connections[0].rate = 0;
     }},
    {Mark::error, "n2: connection: short messages arrive at n3 (10.0.0.3), long ones do not",
     [](HostRecord& node) {
       node.connections[0].stalled = true;
       node.connections[0].rate = 0;
     }},
    {Mark::warning,
     "n2: latency: a message to n3 (10.0.0.3) and its answer need 200 ms; the median of all is 0.02 ms",
     [](HostRecord& node) { node.connections[0].latency = 0.2; }},
    {Mark::warning, "n2: bandwidth: 95 MiB/s to n3 (10.0.0.3); the median of all is 2.3 GiB/s",
     [](HostRecord& node) { node.connections[0].rate = 1e8; }},
    {Mark::warning, "n2: clock: its clock is 30 s ahead of that of n1",
     [](HostRecord& node) { node.clock_offset = -30; }},
    {Mark::warning, "n2: clock: its clock is 2.5 s behind that of n1",
     [](HostRecord& node) { node.clock_offset = 2.5; }},
    {Mark::error, "n2: torch: the nodes differ in torch: 2.15.0 on n2, 2.13.0 on n[1,3-4]",
     [](HostRecord& node) { node.versions["torch"] = "2.15.0"; }},
    {Mark::error, "n2: torch: the nodes differ in torch: none on n2, 2.13.0 on n[1,3-4]",
     [](HostRecord& node) { node.versions.erase("torch"); }},
    {Mark::warning, "n2: kernel: the nodes differ in kernel: 5.14 on n2, 6.1.0 on n[1,3-4]",
     [](HostRecord& node) { node.versions["kernel"] = "5.14"; }},
    {Mark::warning, "n2: MTU: the nodes differ in MTU: 1500 on n2, 9000 on n[1,3-4]",
     [](HostRecord& node) { node.mtu = 1500; }},
    {Mark::error, "n2: GPUs: the nodes differ in GPUs: 1 NVIDIA A100 on n2, 1 NVIDIA H100 on n[1,3-4]",
     [](HostRecord& node) { node.gpus[0].model = "NVIDIA A100"; }},
    {Mark::warning, "n2: CPUs: the nodes differ in CPUs: 32 on n2, 64 on n[1,3-4]",
     [](HostRecord& node) { node.cpus = 32; }},
    {Mark::warning, "n2: memory: the nodes differ in memory: 128.0 GiB on n2, 256.0 GiB on n[1,3-4]",
     [](HostRecord& node) { node.memory = 128 * k_gibi; }},
    {Mark::error, "n2: Python: PYTHON_EXEC=x cannot be started on n2: no such file",
     [](HostRecord& node) { node.python_problem = "PYTHON_EXEC=x cannot be started on n2: no such file"; }},
    {Mark::error, "n2: GPU: GPU 3: GPU is lost",
     [](HostRecord& node) { node.lost_gpus = {"GPU 3: GPU is lost"}; }},
    {Mark::error, "n2: GPU: the NVIDIA driver shows no GPUs: no answer within 5 s",
     [](HostRecord& node) { node.gpu_problem = "no answer within 5 s"; }},
    {Mark::error, "n2: GPU: GPU 0000:c1:00.0: 2 uncorrected ECC errors",
     [](HostRecord& node) { node.gpus[0].uncorrected = 2; }},
    {Mark::error, "n2: GPU: GPU 0000:c1:00.0: no spare memory rows are left",
     [](HostRecord& node) { node.gpus[0].rows_failed = true; }},
    {Mark::warning, "n2: GPU: GPU 0000:c1:00.0: a process is on it already, with 4.0 GiB in use",
     [](HostRecord& node) {
       node.gpus[0].processes = 1;
       node.gpus[0].used = 4 * k_gibi;
     }},
    {Mark::warning, "n2: GPU: GPU 0000:c1:00.0: 4.0 GiB of its memory are in use before the job",
     [](HostRecord& node) { node.gpus[0].used = 4 * k_gibi; }},
    {Mark::warning, "n2: GPU: GPU 0000:c1:00.0: its clocks are lowered: hardware thermal slowdown",
     [](HostRecord& node) { node.gpus[0].slowed = {"hardware thermal slowdown"}; }},
    {Mark::warning, "n2: GPU: GPU 0000:c1:00.0: PCIe runs with 8 of 16 lanes",
     [](HostRecord& node) { node.gpus[0].link_width = 8; }},
    {Mark::warning, "n2: GPU: GPU 0000:c1:00.0: 2 of 18 NVLinks are down",
     [](HostRecord& node) {
       node.gpus[0].nvlinks = 16;
       node.gpus[0].nvlinks_down = 2;
     }},
    {Mark::error, "n2: variables: NCCL_SOCKET_IFNAME=eth names no interface that is up (lo, hsn0)",
     [](HostRecord& node) { node.variables["NCCL_SOCKET_IFNAME"] = "eth"; }},
    {Mark::error, "n2: variables: GLOO_SOCKET_IFNAME=hsn names no interface that is up (lo, hsn0)",
     [](HostRecord& node) { node.variables["GLOO_SOCKET_IFNAME"] = "hsn"; }},
    {Mark::warning, "n2: variables: NCCL_IB_DISABLE=1 keeps NCCL off the RDMA network that the node has",
     [](HostRecord& node) { node.variables["NCCL_IB_DISABLE"] = "1"; }},
};

}  // namespace

TEST_CASE("an interface that is not there is found on a node alone too") {
  std::vector<HostRecord> records = sound_nodes(1);
  records[0].variables["GLOO_SOCKET_IFNAME"] = "ib7";
  const auto findings = judge(records);
  REQUIRE(findings.size() == 1);
  CHECK(sentence_of(findings[0]) ==
        "n1: variables: GLOO_SOCKET_IFNAME=ib7 names no interface that is up (lo, hsn0)");
  records[0].variables["GLOO_SOCKET_IFNAME"] = "lo";
  CHECK(judge(records).empty());
}

TEST_CASE("nothing is found on sound nodes") {
  CHECK(judge(sound_nodes()).empty());
  CHECK(judge(sound_nodes(1)).empty());
  std::vector<HostRecord> records = sound_nodes();
  for (HostRecord& record :
       records) {  // a prefix is enough for NCCL; those that exclude say nothing of others
    record.variables = {{"NCCL_SOCKET_IFNAME", "hsn"}, {"GLOO_SOCKET_IFNAME", "hsn0"}};
    record.clock_offset = -0.3;
  }
  CHECK(judge(records).empty());
}

TEST_CASE("each fault of one node is one finding") {
  for (const Fault& fault : k_faults) {
    std::vector<HostRecord> records = sound_nodes();
    fault.make(records[1]);
    const std::vector<Finding> findings = judge(records);
    REQUIRE(findings.size() == 1);
    CHECK(sentence_of(findings[0]) == fault.sentence);
    CHECK(findings[0].mark == fault.mark);
    CHECK_FALSE(findings[0].fix.empty());
    CHECK(fails({records, {}, false, findings}, false) == (fault.mark == Mark::error));
    CHECK(fails({records, {}, false, findings}, true));
  }
}

TEST_CASE("what all nodes share is said once, errors first") {
  std::vector<HostRecord> records = sound_nodes();
  for (HostRecord& record : records) record.limits["nproc"] = 100;
  records[2].limits["nofile"] = 24;
  const std::vector<Finding> findings = judge(records);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].hosts == std::vector<std::string>{"n3"});
  CHECK(findings[1].hosts.size() == 4);
}

TEST_CASE("two halves that differ are both named") {
  std::vector<HostRecord> records = sound_nodes();
  records[0].versions["torch"] = records[1].versions["torch"] = "2.15.0";
  const std::vector<Finding> findings = judge(records);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].hosts.size() == 4);
}

TEST_CASE("a doubtful connection is measured again before it is told") {
  std::vector<HostRecord> records = sound_nodes();
  CHECK(doubtful_connections(records).empty());
  records[2].connections[0].rate = 1e8;
  CHECK(doubtful_connections(records) == std::vector<int>{8});
  records[1].connections[0].latency = 0.5;
  records[3].connections[0].problem = "connection refused";
  CHECK(doubtful_connections(records) == std::vector<int>{4, 8, 12});
}

TEST_CASE("a record is the same after its way as JSON") {
  const HostRecord record = sound_node(1, 4);
  CHECK(render_json_text(parse_json_text<HostRecord>(render_json_text(record))) == render_json_text(record));
  CHECK_THROWS_AS(parse_json_text<HostRecord>("{"), Error);
  CHECK_THROWS_AS(parse_json_text<HostRecord>("{\"rank\": \"x\"}"), Error);
}

TEST_CASE("a check as text") {
  CheckResult result{sound_nodes(2), {}, false, {}, Milliseconds{1234}};
  const std::string text = render_check_text(result);
  CHECK(text.find("n2    10.0.0.2 hsn0  9000") != std::string::npos);
  CHECK(text.find("same on all nodes: Python 3.11, ddprun 0.2.0, kernel 6.1.0, torch 2.13.0\n") !=
        std::string::npos);
  CHECK(text.ends_with("checked 2 nodes in 1.2 s: nothing is wrong\n"));
  result.records[1].limits["nofile"] = 24;
  result.findings = judge(result.records);
  CHECK(render_check_text(result).find("\n  error: n2: limits: a process may open 24 files") !=
        std::string::npos);
  CHECK(render_check_text(result).ends_with(
      "checked 2 nodes in 1.2 s: 1 error and 0 warnings; a job would fail\n"));
  CHECK(render_check_json(result, false).find("\"result\": \"failed\"") != std::string::npos);
}

TEST_CASE("what torch measured is judged and told") {
  std::vector<DeepResult> results;
  for (int rank = 0; rank < 4; ++rank)
    results.push_back({rank,
                       "n" + std::to_string(rank / 2 + 1),
                       "NVIDIA H100",
                       "nccl",
                       7e14,
                       {1 << 20, 1 << 28},
                       {1e9, 2e11},
                       ""});
  std::vector<Finding> findings;
  judge_deep(results, findings);
  CHECK(findings.empty());
  CHECK(describe_deep(results) ==
        "all-reduce by nccl on 4 ranks, bus bandwidth: 1 MiB at 954 MiB/s, 256 MiB at 186.3 GiB/s\n"
        "matmul in bfloat16, median of the GPUs: 700 TFLOP/s\n");
  results[3].matmul = 5e14;
  judge_deep(results, findings);
  REQUIRE(findings.size() == 1);
  CHECK(sentence_of(findings[0]) ==
        "n2: GPU: the GPU of rank 3 computes 500 TFLOP/s; the median of all is 700");
  for (DeepResult& each : results) each.error = "ModuleNotFoundError: No module named 'torch'";
  findings.clear();
  results[3].matmul = 7e14;
  judge_deep(results, findings);
  REQUIRE(findings.size() == 1);
  CHECK(sentence_of(findings[0]) == "n1,n2: torch: ranks 0-3: ModuleNotFoundError: No module named 'torch'");
  CHECK(parse_json_text<DeepResult>(render_json_text(results[1])).error == results[1].error);
}

}  // namespace ddprun::check
