#include "facts/snapshot.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

namespace {

Snapshot full_snapshot() {
  Snapshot snapshot;
  snapshot.arguments = {"--dry-run", "train.py", "--lr", "0.1"};
  snapshot.working_directory = "/home/u/run";
  snapshot.environment = {{"SLURM_JOB_ID", "29"}, {"EMPTY", ""}};
  snapshot.files = {{"/tmp/hosts", "n1\nn2\n"}};
  snapshot.programs = {{"python3", {ProgramKind::executable, "/usr/bin/python3"}},
                       {"train.py", {ProgramKind::python_file, "train.py"}},
                       {"trian.py", {}}};
  snapshot.unix_time = 1700000000;
  HostFacts& host = snapshot.host;
  host.name = "n1";
  host.uid = 4000000000;
  host.pid = 77;
  host.addresses = {{"lo", "127.0.0.1", 8, true}, {"eth0", "fd00::1", 64, false}};
  host.allowed_cpus = {0, 1, 2, 3, 128};
  host.allowed_cores = 3;
  host.online_cpus = 256;
  host.cpu_quota = 2.5;
  host.gpus = {{"nvidia", "0000:c1:00.0", "GPU-5a5f0b1d", {2, 3}, {"MIG-1", "MIG-2"}}, {"amd", ""}};
  host.allowed_memory_nodes = {0, 2, 3};
  host.topology = make_flat_topology({0, 1, 2, 3, 128});
  host.warnings = {"NVML gave no answer within 2 s"};
  host.ephemeral_ports = {20000, 65535};
  host.munge = true;
  host.cgroup = "0::/job_29/step_0\n";
  host.ancestors = {{70, "slurmstepd: [29.0]"}};
  host.step = StepOptions{true, false, 30};
  host.stdout_is_terminal = true;
  host.stderr_is_terminal = true;
  return snapshot;
}

// The text of the error that parsing gives, with its hint checked.
std::string refusal(const std::string& json) {
  try {
    parse_snapshot(json, "bad.json");
  } catch (const Error& error) {
    CHECK(error.hint() == "write it again with ddprun --capture FILE on the machine in question");
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a variable is unset, empty or has a value") {
  const Snapshot snapshot = full_snapshot();
  CHECK(find_variable(snapshot, "SLURM_JOB_ID") == "29");
  CHECK(find_variable(snapshot, "EMPTY") == "");
  CHECK_FALSE(find_variable(snapshot, "SLURM_JOB"));
}

TEST_CASE("a snapshot survives its file") {
  for (const Snapshot& snapshot : {full_snapshot(), Snapshot{}}) {
    const std::string json = render_snapshot(snapshot);
    CHECK(parse_snapshot(json, "a.json") == snapshot);
    CHECK(render_snapshot(parse_snapshot(json, "a.json")) == json);
    CHECK(json.back() == '\n');
  }
}

TEST_CASE("the file reads in the order of the value") {
  const std::string json = render_snapshot(full_snapshot());
  std::size_t last = 0;
  for (const char* key : {"\"format\": 1", "\"arguments\"", "\"working_directory\"", "\"environment\"",
                          "\"files\"", "\"programs\"", "\"host\"", "\"allowed_cpus\": \"0-3,128\"",
                          "\"ephemeral_ports\": \"20000-65535\"", "\"unix_time\": 1700000000"}) {
    CAPTURE(key);
    const std::size_t position = json.find(key);
    REQUIRE(position != std::string::npos);
    CHECK(position > last);
    last = position;
  }
}

TEST_CASE("bytes that are not text survive the file and are readable in it") {
  Snapshot snapshot;
  snapshot.environment = {{"A", "caf\xe9 \\x41 \\n"}, {"B\xff", "gr\xc3\xbc\xc3\x9f"}};
  snapshot.files = {{"/f", std::string("a\0b\x1b", 4)}};
  const std::string json = render_snapshot(snapshot);
  CHECK(json.find(R"("A": "caf\\xe9 \\x5cx41 \\n")") != std::string::npos);
  CHECK(json.find("gr\xc3\xbc\xc3\x9f") != std::string::npos);
  CHECK(parse_snapshot(json, "a.json") == snapshot);
}

TEST_CASE("what a file leaves out has its default") {
  CHECK(parse_snapshot(R"({"format": 1})", "a.json") == Snapshot{});
  CHECK(parse_snapshot(R"({"format": 1, "host": {"name": "n1"}})", "a.json").host.name == "n1");
}

TEST_CASE("a snapshot file that is not one says what is wrong and where") {
  const auto with = [](const std::string& rest) { return "{\"format\": 1, " + rest + "}"; };
  const std::string start = "cannot use the snapshot bad.json: ";
  CHECK(refusal("{\n\"format\": 1,\n\"host\": {") == start + "line 3 is not JSON");
  CHECK(refusal("") == start + "line 1 is not JSON");
  CHECK(refusal("{\"format\": 1} x") == start + "line 1 is not JSON");
  CHECK(refusal("{\"format\": 1, \"working_directory\": \"\xff\"}") == start + "line 1 is not JSON");
  CHECK(refusal("[]") == start + "the whole file must be an object");
  CHECK(refusal("{}") == start + "format is missing");
  CHECK(refusal(R"({"format": 2})") == start + "format is 2, but this ddprun reads 1");
  CHECK(refusal(R"({"format": "1"})") == start + "format must be a whole number");
  CHECK(refusal(with(R"("hosts": {})")) == start + "hosts is not known; did you mean host?");
  CHECK(refusal(with(R"("zebra\u001b": {})")) == start + "zebra\\x1b is not known");
  CHECK(refusal(with(R"("host": {"gpus": [{"vendor": "amd", "vendr": ""}]})")) ==
        start + "host.gpus[0].vendr is not known; did you mean vendor?");
  CHECK(refusal(with(R"("environment": {"A": 1})")) == start + "environment.A must be text");
  CHECK(refusal(with(R"("environment": [])")) == start + "environment must be an object");
  CHECK(refusal(with(R"("arguments": "x")")) == start + "arguments must be an array");
  CHECK(refusal(with(R"("arguments": ["x", 1])")) == start + "arguments[1] must be text");
  CHECK(refusal(with(R"("host": {"munge": 1})")) == start + "host.munge must be true or false");
  CHECK(refusal(with(R"("host": {"pid": 3000000000})")) ==
        start + "host.pid must be between 0 and 2147483647");
  CHECK(refusal(with(R"("host": {"uid": 18446744073709551615})")) ==
        start + "host.uid must be between 0 and 9223372036854775807");
  CHECK(refusal(with(R"("host": {"cpu_quota": 0})")) == start + "host.cpu_quota must be a number above 0");
  CHECK(refusal(with(R"("host": {"cpu_quota": 1e999})")) == start + "it holds a number that is too large");
  CHECK(refusal(with(R"("host": {"allowed_cpus": "3-1"})")) ==
        start + "host.allowed_cpus must be a list of CPUs such as 0-3,8");
  CHECK(refusal(with(R"("host": {"topology": {"nodes": [{}], "cores": [{"cores": ""}]}})")) ==
        start + "host.topology.cores must list one core or more");
  CHECK(refusal(with(R"("host": {"allowed_memory_nodes": "x"})")) ==
        start + "host.allowed_memory_nodes must be a list of NUMA nodes such as 0-3,8");
  CHECK(refusal(with(R"("host": {"gpus": [{"local_cpus": "x"}]})")) ==
        start + "host.gpus[0].local_cpus must be a list of CPUs such as 0-3,8");
  CHECK(refusal(with(R"("host": {"ephemeral_ports": "9-1"})")) ==
        start + "host.ephemeral_ports must be a range of ports such as 32768-60999");
  CHECK(refusal(with(R"("programs": {"p": {"kind": "x"}})")) ==
        start + "programs.p.kind must be missing, directory, not executable, python file or executable");
  CHECK(refusal(with(R"("format": 1)")) == start + "format appears twice");
  CHECK(refusal(with(R"("environment": {"A": "", "\\x41": ""})")) ==
        start + "environment.\\x41 appears twice");
  CHECK(refusal(with(R"("programs": {"A": {}, "\\x41": {}})")) == start + "programs.\\x41 appears twice");
  CHECK(refusal(std::string(100000, '[')) == start + "it is nested too deeply");
  CHECK(refusal(std::string(k_snapshot_limit + 1, ' ')) == start + "it is larger than 4 MiB");
}
