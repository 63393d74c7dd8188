#include "status/job_status.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "catch.hpp"
#include "manual_keys.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

WorkerStatus worker_of(int rank) {
  WorkerStatus worker;
  worker.rank = rank;
  worker.local_rank = rank % 2;
  worker.pid = 1000 + rank;
  worker.output_age = Milliseconds{2500};
  worker.cpu_time = Milliseconds{10000};
  worker.memory = std::uint64_t{3} << 30U;
  return worker;
}

JobStatus job() {
  JobStatus status;
  status.job = "4711";
  status.launch_id = "aa";
  status.program = "train.py --lr 0.1";
  status.host = "n1";
  status.pid = 99;
  status.phase = "running";
  status.restarts = 1;
  status.max_restarts = 3;
  status.nodes = 2;
  status.workers = 4;
  status.uptime = std::chrono::minutes(61);
  status.here = {{"n1", Milliseconds{5000}, {worker_of(0), worker_of(1)}},
                 {"n2", Milliseconds{90000}, {worker_of(2), worker_of(3)}}};
  return status;
}

// A worker of which everything is known.
WorkerStatus whole_worker() {
  WorkerStatus worker = worker_of(0);
  worker.gpu = "0";
  worker.gpu_percent = 97;
  worker.gpu_memory = worker.io = std::uint64_t{1};
  worker.own_cpu = worker.cpu_wait = worker.progress_age = Milliseconds{1};
  worker.exit_code = 0;
  worker.waited_percent = 12;
  worker.standby = "ready";
  const status::Collective collective{"all_reduce", "default_pg",    7,    "1000 float",
                                      true,         Milliseconds{1}, "0-1"};
  const std::vector<status::Frame> stack{{"train.py", 88, "step"}};
  worker.view = {true,
                 collective,
                 status::NcclCounts{7, 1},
                 stack,
                 "loader",
                 {{"MainThread", stack}},
                 "wait",
                 {{"sleep", "libc.so.6"}},
                 "ValueError",
                 true,
                 "stopped (state T)",
                 "it does not answer",
                 "Thread 1"};
  return worker;
}

// "nodes[].workers[].rank": the spelling of the manual.
void collect_keys(const nlohmann::json& value, const std::string& path, std::set<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      collect_keys(member, path.empty() ? key : path + "." + key, keys);
  } else if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (const auto& element : value) collect_keys(element, path + "[]", keys);
  } else {
    keys.insert(path);
  }
}

JobStatus second_look(JobStatus status) {
  for (NodeStatus& node : status.here) {
    node.measured += Milliseconds{1000};
    for (WorkerStatus& worker : node.workers) worker.cpu_time = *worker.cpu_time + Milliseconds{1500};
  }
  return status;
}

}  // namespace

TEST_CASE("a status is the same after its text is read") {
  JobStatus status = job();
  CHECK(parse_job_status(render_status(status)) == status);
  status.coordinator = "n0";
  status.silent = {"n3"};
  status.here[0].workers[0] = {0, 0, 0, {}, {}, {}, "0,1", 97, std::uint64_t{1} << 40U};
  CHECK(parse_job_status(render_status(status)) == status);
  CHECK(parse_node_status(render_status(status.here[0])) == status.here[0]);
}

TEST_CASE("what is not a status is none") {
  const std::string text = render_status(job());
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_FALSE(parse_job_status(text.substr(0, length)));
  CHECK_FALSE(parse_node_status(R"({"host":"n1","clock_seconds":-1,"workers":[]})"));
  CHECK_FALSE(parse_node_status(R"({"host":"n1","clock_seconds":1,"workers":[{"rank":-1,"local_rank":0}]})"));
  CHECK_FALSE(
      parse_node_status(R"({"host":"n1","clock_seconds":1,"workers":[{"rank":0.5,"local_rank":0}]})"));
  for (const char* wrong : {R"("rank":1e67,"local_rank":0)", R"("rank":0,"local_rank":0,"memory_bytes":-1)",
                            R"("rank":0,"local_rank":0,"gpu_memory_bytes":1e67)"}) {
    CAPTURE(wrong);
    CHECK_FALSE(
        parse_node_status(R"({"host":"n1","clock_seconds":1,"workers":[{)" + std::string(wrong) + "}]}"));
  }
  CHECK_FALSE(parse_node_status(R"({"host":7,"clock_seconds":1,"workers":[]})"));
}

TEST_CASE("a node with more workers than fit is told in part") {
  NodeStatus node{"n1", Milliseconds{1}, {}};
  WorkerStatus worker = worker_of(0);
  worker.gpu = std::string(200, '7');  // so that a few thousand are too many
  node.workers.assign(2200, worker);
  const std::string text = render_status(node);
  CHECK(text.size() <= k_max_node_status);
  const auto part = parse_node_status(text);
  REQUIRE(part);
  CHECK(part->workers.size() > 1000);
  CHECK(part->workers.size() < node.workers.size());
}

TEST_CASE("CPU use is measured between two looks at the same worker") {
  const JobStatus before = job();
  JobStatus now = second_look(before);
  CHECK(cpu_percent(now, before, 2) == 150);
  CHECK_FALSE(cpu_percent(now, before, 4));
  CHECK_FALSE(cpu_percent(before, before, 0));
  now.here[1].workers[0].pid = 5;  // of the next attempt
  CHECK_FALSE(cpu_percent(now, before, 2));
  now.here[1].workers[1].cpu_time = Milliseconds{1};  // a child's went with it
  CHECK(cpu_percent(now, before, 3) == 0);
}

TEST_CASE("the table shows what is known and leaves out what nobody has") {
  JobStatus before = job();
  JobStatus now = second_look(before);
  CHECK(render_status_table(now, before) ==
        "job 4711 on n1 (ddprun 99): running, for 1 h 1 min\n"
        "4 workers on 2 nodes: train.py --lr 0.1\n"
        "RANK  HOST  LOCAL  PID   CPU    MEMORY   LAST OUTPUT\n"
        "0     n1    0      1000  150 %  3.0 GiB  2 s ago\n"
        "1     n1    1      1001  150 %  3.0 GiB  2 s ago\n"
        "2     n2    0      1002  150 %  3.0 GiB  2 s ago\n"
        "3     n2    1      1003  150 %  3.0 GiB  2 s ago\n");
  now.attempt = 1;
  now.here.resize(1);
  now.here[0].workers[0].pid = 0;
  now.here[0].workers[1].output_age.reset();
  now.here[0].workers[1].gpu = "1";
  now.here[0].workers[1].gpu_percent = 98;
  now.here[0].workers[1].gpu_memory = std::uint64_t{500} << 20U;
  now.silent = {"n2"};
  CHECK(render_status_table(now, before) ==
        "job 4711 on n1 (ddprun 99): running, restart 1 of 3, for 1 h 1 min\n"
        "4 workers on 2 nodes: train.py --lr 0.1\n"
        "RANK  HOST  LOCAL  PID   CPU    MEMORY   GPU  GPU USE  GPU MEMORY  LAST OUTPUT\n"
        "0     n1    0      -     -      3.0 GiB  -    -        -           ended\n"
        "1     n1    1      1001  150 %  3.0 GiB  1    98 %     500 MiB     none seen\n"
        "no answer from n2\n");
}

TEST_CASE("the table shows how long the others wait for each rank, and how long a step takes") {
  JobStatus status = job();
  status.here.resize(1);
  status.here[0].workers[1].waited_percent = 18;
  status.step = Milliseconds{836};
  const auto shows = [&](const std::string& text) {
    return render_status_table(status, status).find(text) != std::string::npos;
  };
  CHECK(shows("  WAITED FOR  "));
  CHECK(shows("  18 %        "));
  CHECK(shows("4 workers on 2 nodes: train.py --lr 0.1; a step takes 836 ms\n"));
  status.step_hour_ago = Milliseconds{812};
  CHECK(shows("; a step takes 836 ms, 3 % more than an hour ago\n"));
  status.step_hour_ago = Milliseconds{837};
  CHECK(shows("; a step takes 836 ms, as an hour ago\n"));
  status.step = Milliseconds{61'200};
  status.step_hour_ago = Milliseconds{122'400};
  CHECK(shows("; a step takes 61.2 s, 50 % less than an hour ago\n"));
}

TEST_CASE("another node's word says where to ask for all") {
  JobStatus status = job();
  status.here.clear();
  status.workers = 0;
  status.coordinator = "n0\x1b[2J";
  status.phase = "waiting for the coordinator";
  CHECK(render_status_table(status, status) ==
        "job 4711 on n1 (ddprun 99): waiting for the coordinator, for 1 h 1 min\n"
        "only the workers of this node: the coordinator on n0\\x1b[2J has not answered\n");
}

TEST_CASE("as JSON it has the CPU use too") {
  const JobStatus before = job();
  const std::string text = render_status_json({second_look(before)}, {before});
  CHECK(text.starts_with("[\n"));
  CHECK(text.find("\"cpu_percent\": 150") != std::string::npos);
}

TEST_CASE("the manual names the keys of the status as JSON and no others") {
  JobStatus before = job();
  before.coordinator = "n0";
  before.silent = {"n3"};
  before.step = before.step_hour_ago = Milliseconds{812};
  before.here = {{"n1", Milliseconds{5000}, {whole_worker()}, "s0/leaf1", "7f3c.1"}};
  std::set<std::string> printed;
  const std::string text = render_status_json({second_look(before)}, {before});
  collect_keys(read_json_text(text)[0], "", printed);
  CHECK(printed == test::keys_in_manual("THE STATUS AS JSON"));
}

TEST_CASE("the stacks of many ranks are shortened before a rank is left out") {
  NodeStatus node{"n1", {}, {}};
  for (int rank = 0; rank < 256; ++rank) {
    node.workers.push_back(worker_of(rank));
    status::RankView& view = node.workers.back().view;
    view.threads = std::string(status::k_most_threads_text, 'x');
    view.stack.assign(status::k_most_frames, {"/home/a/train.py", 44, "step"});
  }
  const auto few = [&] { return parse_node_status(render_status(node)); };
  REQUIRE(few());
  REQUIRE(few()->workers.size() == 256);
  CHECK(few()->workers[255].view.threads.empty());
  CHECK(few()->workers[255].view.stack.size() < status::k_most_frames);
  CHECK(few()->workers[255].view.stack[0].line == 44);
  node.workers.resize(16);
  CHECK(few()->workers[15].view == node.workers[15].view);
}
