#include "rendezvous/codec.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/json_text.hpp"
#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

report::Failure some_failure() {
  report::Failure failure;
  failure.attempt = {2};
  failure.rank = {13};
  failure.local_rank = {5};
  failure.host = "n2";
  failure.pid = 4711;
  failure.program = "python";
  failure.status = {ExitStatus::Kind::signalled, 11, {}, true};
  failure.unix_milliseconds = 1700000000123;
  failure.message = "RuntimeError: \"gr\xc3\xbc\xc3\x9f\"";
  failure.message_cut = 5;
  failure.last_lines = {"a\tb", "", std::string("nul\0here", 8)};
  failure.hint = "do this";
  failure.gpu = "GPU-5c2f";
  failure.out_of_memory = "the limit of 4.0 GiB of its cgroup was reached";
  failure.environment = "Python 3.11, torch 2.13.0, NVIDIA H100 80GB HBM3";
  failure.log_file = "/logs/rank-00013.err";
  failure.after_stop = true;
  failure.alike = {14, 15};
  failure.gpu_fault = true;
  return failure;
}

plan::Assignment some_assignment() {
  plan::Assignment assignment{{1},  4,    2,       {1},    2,      "10.0.0.1", 41000,
                              true, true, "2(x2)", "29.0", "cafe", {},         {}};
  assignment.workers = {{{2}, {0}, 2, 4}, {{3}, {1}, 3, 4}};
  assignment.store_places = {{{"10.0.0.2", "fd00::2"}, 40123}, {{"10.0.0.1"}, 40124}};
  return assignment;
}

plan::Assignment with_local_peers() {
  plan::Assignment assignment = some_assignment();
  assignment.local_peers = {{{0}, true, {{"0", {"0000:01:00.0"}}}},
                            {{1}, false, {{"MIG-1", {}}, {"", {}}}},
                            {{3}, true, {{"2,3", {"0000:02:00.0", "0000:03:00.0"}}}}};
  return assignment;
}

// Of a host without devices.
plan::Assignment with_plain_local_peers(int count) {
  plan::Assignment assignment = some_assignment();
  for (int i = 0; i < count; ++i) assignment.local_peers.push_back({{i}, true, {{}}});
  return assignment;
}

Roster some_roster() {
  Roster roster;
  roster.rolls = {{2, {{0, 3}, {5, 5}}}, {3, {{0, 2}}}};
  roster.coordinator = {1};
  roster.host = "n2";
  roster.successors = {{{0}, "n1", {"10.0.0.1", "fd00::1"}, 20001}, {{2}, "n3", {"10.0.0.3"}, 20003}};
  roster.attempt = {4};
  roster.used_restarts = 2;
  roster.launch_id = "abc";
  roster.ending = Ending{15, "n3"};
  roster.own = {2};
  roster.slot = 1;
  roster.counts = true;
  return roster;
}

checkpoint::Held some_held() {
  checkpoint::Held held;
  held.parts = {
      {90, 0, 4, 268435456, false}, {90, 1, 4, 0, true}, {100, 0, 3, std::uint64_t{1} << 40, false}};
  held.flushed = 90;
  held.flushed_ranks = {0, 1};
  held.published = 0;
  held.published_world = 4;
  held.attempt = 0;
  held.begun_from = 80;
  held.before = {70, -1};
  return held;
}

checkpoint::Restore some_restore() {
  return {90, 4, true, true, false, {{{"n2", "30001/5ec7e7", {"10.0.0.2", "fd00::2"}}, {0, 3}}}};
}

checkpoint::Order some_order() {
  return {staging::Server{"n2", "30001/5ec7e7", {"10.0.0.2"}}, {100, 90}, 90, 4, 3, {0, 2}, 90, true};
}

std::vector<AgentMessage> agent_messages() {
  plan::Announcement plain;
  plain.agent = {3};
  plain.host = "n4";
  plain.node = NodeIndex{3};
  plain.workers = 8;
  plain.role = "trainer";
  plain.max_restarts = 2;
  plain.host_timeout = Milliseconds{10000};
  plain.addresses = {"10.0.0.4", "fd00::4"};
  plain.counted = true;
  plain.missing_gpus = "SLURM_GPUS_ON_NODE is 4, 3 are visible";
  plan::Announcement fixed;
  fixed.agent = {3};
  fixed.host = "n4";
  fixed.node = NodeIndex{1};
  fixed.fixed_rank = GlobalRank{7};
  fixed.first_local_rank = {3};
  fixed.store_ports = {41000, 41001};
  plan::Announcement launched;
  launched.agent = {5};
  launched.host = "n4";
  launched.launcher_rank = GlobalRank{5};
  launched.style_assumed = true;
  plan::Announcement bound = fixed;
  bound.cpus = "0-63,128-191";
  bound.python = {"3.11", "2.13.0+cpu"};
  bound.local_workers = {{"0,1", {"0000:01:00.0", "0000:02:00.0"}}, {"", {}}};
  plan::Announcement plain_workers = fixed;
  plain_workers.local_workers.resize(3);
  plan::Announcement unnumbered = plain;
  unnumbered.agent.reset();
  unnumbered.node.reset();
  plan::Announcement keeps = plain;
  keeps.checkpoint_door = "30000/cafe";
  Stopped saved{{2}, {}};
  saved.checkpoints = some_held();
  return {
      Join{keeps, "0.1.0", "10.0.0.1", 4, {}, {}, some_held()},
      saved,
      CheckpointsHeld{},
      CheckpointsHeld{some_held()},
      Join{bound, "0.1.0", "", 4},
      Join{plain_workers, "0.1.0", "", 4},
      Join{plain, "0.1.0", "10.0.0.1", 4},
      Join{unnumbered, "0.1.0", "127.0.0.1", 2},
      Join{plain, "0.1.0", "10.0.0.1", 4,
           LaunchFailure{"cannot start train.py", ": no such file", true, "look", 127}},
      Join{launched, "0.1.0", "10.0.0.1", 8},
      Join{fixed, "0.1.0", "", 4},
      Probed{{"10.0.0.1", "fd00::1"}, {"10.1.0.1: connection refused"}},
      Probed{},
      AttemptFailed{{2}, some_failure()},
      AttemptSucceeded{{1}},
      Stopped{{2}, {some_failure(), some_failure()}, {4, 5}},
      Stopped{{2}, {}, {}, true},
      Stopped{
          {2}, {}, {4}, false, {}, {}, {{{4, 5}, "n3", 15, Milliseconds{30000}, "is at train.py:3 in save"}}},
      Alive{},
      Stuck{{2}},
      StopRequest{15, "n3"},
      lifeline::Output{lifeline::Stream::output, "n3"},
      lifeline::Output{lifeline::Stream::error, "n3"},
      StopRequest{10, "n3", true},
      ClientVerdict{{"10.0.0.77", 4711, "10.0.0.1", 29500}, Holder::own},
      ClientVerdict{{"fd00::77", 4711, "fd00::1", 29500}, Holder::elsewhere},
      Join{plain, "0.1.0", "10.0.0.1", 4, {}, Survivor{some_roster(), {0, 2}}},
      JobQuestion{},
      JobQuestion{true},
      RosterTaken{3},
      RestartRequest{1, "n3", "ada (pid 123) on n1"},
      RestartRequest{2, {}, "root on n1"},
      Looked{{2}},
      Looked{{2}, {"GPU: GPU 3: GPU is lost", "have the site reset the node"}},
      ProfileRequest{1, 0, Milliseconds{10'000}, 4096},
      ProfilePart{1, 7, 0, false, "{}"},
      ClockQuestion{1796023167652754},
      CollectivesSeen{
          {1}, 63, {1796023167652754, 40, 812000, {"0"}, {{3, {{0, 0, 12, 99, 1000}}}, {4, {}}}}}};
}

status::JobStatus some_job() {
  status::JobStatus job;
  job.launch_id = "4f2a";
  job.phase = "running";
  job.nodes = 3;
  job.silent = {"n7"};
  return job;
}

std::vector<CoordinatorMessage> coordinator_messages() {
  Roster waiting = some_roster();
  waiting.slot.reset();
  waiting.ending.reset();
  waiting.aside = true;
  report::Cause cause;
  cause.kind = report::Cause::Kind::worker_failed;
  cause.failure = some_failure();
  Finish drained{{report::Cause::Kind::agent_lost, {}, 0, "n3", "n3 is drained"}, {}, {}, false};
  drained.drained = true;
  return {Refused{"no place", "start once"},
          Probe{{"10.0.0.1"}, 20480},
          ClientQuestion{{"10.0.0.77", 4711, "10.0.0.1", 29500}, options::StoreAccess::host},
          NodeShown{true, {"n3", Milliseconds{1500}, {{4, 0, 77}}}},
          JobShown{true, some_job()},
          some_roster(),
          waiting,
          Standby{},
          Standby{{{"n2", "30001/5ec7e7", {"10.0.0.2", "fd00::2"}}, {"n1", "30000/cafe", {}}}},
          Modules{{"os", "torch.nn"}},
          Start{some_assignment(), Milliseconds{60000}},
          Start{with_local_peers()},
          Start{some_assignment(), Milliseconds{0}, {{"n1", "30000/cafe", {"10.0.0.1"}}}},
          Start{with_plain_local_peers(3)},
          Start{some_assignment(), Milliseconds{0}, {}, some_restore()},
          Start{some_assignment(), Milliseconds{0}, {}, checkpoint::Restore{0, 1}},
          CheckpointOrder{},
          CheckpointOrder{some_order()},
          AliveQuestion{},
          Warn{{2}, 10},
          Stop{{1}},
          Stop{{1}, 64, true},
          Stop{{1}, 15, false, true},
          Finish{cause, {some_failure()}, {"lost n3"}, true},
          Finish{{report::Cause::Kind::agent_lost, {}, 0, "n3", "lost n3"}, {}, {}, false},
          drained,
          RestartReply{1, true, "all workers start again without n3"},
          RestartReply{2, false, "n9 is not a node of this job", "the nodes of the job: n1, n2"},
          Look{{2}},
          ProfileRequest{1, 7, Milliseconds{300'000}, 131072},
          ProfilePart{1, 7, 4, false, "{}"},
          ProfilePart{1, 7, 0, true},
          ClockReply{1796023167652754, 75955351009}};
}

std::vector<std::string> payloads_of(FrameReader& reader) {
  std::vector<std::string> payloads;
  for (auto item = reader.next(); std::holds_alternative<std::string>(item); item = reader.next()) {
    payloads.push_back(std::get<std::string>(item));
  }
  return payloads;
}

std::string payload_of(const std::string& frame) { return frame.substr(k_frame_header); }

AgentMessage round_trip(const AgentMessage& message) {
  return std::get<AgentMessage>(decode_agent_message(payload_of(encode(message))));
}

std::string error_of(std::string_view payload) {
  const auto decoded = decode_agent_message(payload);
  return std::holds_alternative<CodecError>(decoded) ? std::get<CodecError>(decoded).what : "";
}

}  // namespace

TEST_CASE("every message survives the way") {
  for (const AgentMessage& message : agent_messages()) {
    CAPTURE(encode(message));
    CHECK(std::get<AgentMessage>(decode_agent_message(payload_of(encode(message)))) == message);
  }
  for (const CoordinatorMessage& message : coordinator_messages()) {
    CAPTURE(encode(message));
    CHECK(std::get<CoordinatorMessage>(decode_coordinator_message(payload_of(encode(message)))) == message);
  }
}

TEST_CASE("any split of the bytes gives the same messages") {
  std::string stream;
  std::vector<std::string> expected;
  for (const AgentMessage& message : agent_messages()) {
    stream += encode(message);
    expected.push_back(payload_of(encode(message)));
  }
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    FrameReader reader;
    std::vector<std::string> payloads;
    for (std::size_t start = 0; start < stream.size();) {
      const std::size_t length = round == 0 ? 1 : 1 + random() % 700;
      reader.append(stream.substr(start, length));
      for (std::string& payload : payloads_of(reader)) payloads.push_back(std::move(payload));
      start += length;
    }
    CHECK(payloads == expected);
  }
}

TEST_CASE("a frame past the limit is an error before its bytes arrive") {
  FrameReader reader;
  reader.append(std::string("\x00\x10\x00\x01", 4));
  auto item = reader.next();
  REQUIRE(std::holds_alternative<CodecError>(item));
  CHECK(std::get<CodecError>(item).what == "a message of 1048577 bytes, the limit is 1048576");
}

TEST_CASE("what cannot be understood is named") {
  const std::string prefix = "an invalid message: ";
  CHECK(error_of("") == prefix + "not an object");
  CHECK(error_of("[1") == prefix + "not an object");
  CHECK(error_of("[]") == prefix + "not an object");
  CHECK(error_of("{}") == prefix + "\"type\" is missing");
  CHECK(error_of(R"({"type":7})") == prefix + "\"type\" is not a string");
  CHECK(error_of(R"({"type":"dance"})") == "a message of an unknown kind");
  CHECK(error_of(R"({"type":"start"})") == "a message of an unknown kind");  // not an agent's to send
  CHECK(error_of(R"({"type":"succeeded"})") == prefix + "\"attempt\" is missing");
  CHECK(error_of(R"({"type":"succeeded","attempt":-1})") == prefix + "\"attempt\" is out of range");
  CHECK(error_of(R"({"type":"succeeded","attempt":1.5})") == prefix + "\"attempt\" is not a whole number");
  CHECK(error_of(R"({"type":"succeeded","attempt":18446744073709551615})") ==
        prefix + "\"attempt\" is out of range");
  CHECK(error_of(R"({"type":"probed","reachable":"x"})") == prefix + "\"reachable\" is not a list");
  CHECK(error_of(R"({"type":"probed","reachable":[1]})") == prefix + "\"reachable\" is not a string");
  CHECK(error_of(R"({"type":"stop_request","signal":0,"host":"n1"})") ==
        prefix + "\"signal\" is out of range");
  const std::string wide(4 * k_max_text, 'a');
  CHECK(error_of(R"({"type":"probed","reachable":[")" + wide + "\"]}") ==
        prefix + "\"reachable\" is too long");
}

TEST_CASE("checkpoints that no training has are refused") {
  const auto held = [](const std::string& fields) {
    return error_of(R"({"type":"checkpoints",)" + fields + "}");
  };
  const std::string prefix = "an invalid message: ";
  const auto part = [&](const std::string& step, const std::string& rank, const std::string& world) {
    return held(R"("parts":[{"bytes":1000,"step":)" + step + ",\"rank\":" + rank + ",\"world\":" + world +
                "}]");
  };
  CHECK(part("90", "0", "2").empty());
  CHECK(part("90", "2", "2") == prefix + "\"rank\" is not below \"world\"");
  CHECK(part("90", "0", "16777217") == prefix + "\"world\" is out of range");
  CHECK(part("-1", "0", "2") == prefix + "\"step\" is out of range");
  CHECK(held(R"("published":-1)") == prefix + "\"published\" is out of range");
  CHECK(held(R"("flushed_ranks":[16777216])") == prefix + "\"flushed_ranks\" are out of range");
}

TEST_CASE("of more parts than a message holds the newest are told, and it fits a frame") {
  Stopped stopped{{2}, std::vector(k_max_further_failures, some_failure())};
  for (report::Failure& each : stopped.failures) {
    each.message = std::string(k_max_further_text, '\1');
    each.last_lines = std::vector(k_max_further_lines, std::string(k_max_text, '\1'));
  }
  const std::int64_t latest = std::numeric_limits<std::int64_t>::max() / 2;
  for (int i = 0; i < 5000; ++i)
    stopped.checkpoints.parts.push_back({latest + i, 16777214, 16777215, std::uint64_t{1} << 62, true});
  const std::string frame = encode(AgentMessage(stopped));
  CHECK(frame.size() < k_max_frame);
  const auto back = std::get<Stopped>(round_trip(stopped));
  REQUIRE(back.checkpoints.parts.size() == k_max_parts);
  CHECK(back.checkpoints.parts.back() == stopped.checkpoints.parts.back());
}

TEST_CASE("a start has no holders of parts if they would not fit a frame") {
  Start start{some_assignment()};
  start.restore = checkpoint::Restore{90, 20000};
  for (int i = 0; i < 1100; ++i)
    start.restore->holders.push_back({{"n" + std::to_string(i), "30001/5ec7e7", {"10.0.0.2"}}, {i}});
  const auto back = [&] {
    return std::get<Start>(std::get<CoordinatorMessage>(
        decode_coordinator_message(payload_of(encode(CoordinatorMessage(start))))));
  };
  CHECK(back().restore->holders.size() == k_max_holders);
  for (checkpoint::Holder& each : start.restore->holders) each.server.host = std::string(1000, 'n');
  CHECK(back().restore->holders.empty());
  CHECK(back().restore->step == 90);
}

TEST_CASE("Stop names a signal that exists") {
  const auto stop = [](const std::string& fields) {
    const auto decoded = decode_coordinator_message(R"({"type":"stop","attempt":0,)" + fields + "}");
    const auto* error = std::get_if<CodecError>(&decoded);
    return error != nullptr ? error->what : std::string("fine");
  };
  const std::string prefix = "an invalid message: ";
  CHECK(stop(R"("signal":15,"whole_tree":false)") == "fine");
  CHECK(stop(R"("whole_tree":false)") == prefix + "\"signal\" is missing");
  CHECK(stop(R"("signal":0,"whole_tree":false)") == prefix + "\"signal\" is out of range");
  CHECK(stop(R"("signal":65,"whole_tree":false)") == prefix + "\"signal\" is out of range");
  CHECK(stop(R"("signal":15)") == prefix + "\"whole_tree\" is missing");
}

// The message, encoded, with one piece of its JSON exchanged.
template <class Message>
std::string changed(const Message& message, const std::string& what, const std::string& by) {
  FrameReader reader;
  reader.append(encode(message));
  std::string payload = payloads_of(reader).at(0);
  const auto place = payload.find(what);
  REQUIRE(place != std::string::npos);
  return payload.replace(place, what.size(), by);
}

TEST_CASE("no process ends with such a number, and no worker that succeeded has failed") {
  const AgentMessage failed = AttemptFailed{{2}, some_failure()};
  const std::string status = R"("kind":1,"reason":"","stage":0,"value":11)";
  const auto is_refused = [&](const std::string& by) {
    return std::holds_alternative<CodecError>(decode_agent_message(changed(failed, status, by)));
  };
  CHECK_FALSE(is_refused(status));
  CHECK_FALSE(is_refused(R"("kind":0,"reason":"","stage":0,"value":255)"));
  CHECK_FALSE(is_refused(R"("kind":2,"reason":"","stage":7,"value":2)"));
  CHECK(is_refused(R"("kind":0,"reason":"","stage":0,"value":0)"));
  CHECK(is_refused(R"("kind":0,"reason":"","stage":0,"value":256)"));
  CHECK(is_refused(R"("kind":0,"reason":"","stage":0,"value":-1)"));
  CHECK(is_refused(R"("kind":1,"reason":"","stage":0,"value":-128)"));
  CHECK(is_refused(R"("kind":1,"reason":"","stage":0,"value":0)"));
  CHECK(is_refused(R"("kind":1,"reason":"","stage":0,"value":128)"));
  CHECK(is_refused(R"("kind":2,"reason":"","stage":7,"value":-1)"));
  CHECK(is_refused(R"("kind":3,"reason":"","stage":7,"value":2)"));
  const std::string late = changed(failed, "\"time\":1700000000123", "\"time\":-1");
  CHECK(std::holds_alternative<CodecError>(decode_agent_message(late)));
}

TEST_CASE("a cause that would end the job with 0 is no cause") {
  const auto is_refused = [](const report::Cause& cause) {
    FrameReader reader;
    reader.append(encode(CoordinatorMessage{Finish{cause, {}, {}, false}}));
    return std::holds_alternative<CodecError>(decode_coordinator_message(payloads_of(reader).at(0)));
  };
  CHECK_FALSE(is_refused({report::Cause::Kind::success, {}, 0, "", ""}));
  CHECK_FALSE(is_refused({report::Cause::Kind::worker_failed, some_failure(), 0, "", ""}));
  CHECK(is_refused({report::Cause::Kind::worker_failed, {}, 0, "", ""}));
  CHECK_FALSE(is_refused({report::Cause::Kind::stopped_by_signal, {}, 15, "n1", ""}));
  CHECK(is_refused({report::Cause::Kind::stopped_by_signal, {}, 0, "n1", ""}));
  CHECK(is_refused({report::Cause::Kind::stopped_by_signal, {}, -128, "n1", ""}));
}

TEST_CASE("an assignment whose numbers contradict each other is refused") {
  const CoordinatorMessage start = Start{some_assignment()};
  const auto is_refused = [&](const std::string& what, const std::string& by) {
    return std::holds_alternative<CodecError>(decode_coordinator_message(changed(start, what, by)));
  };
  CHECK_FALSE(is_refused("[2,0,2,4]", "[0,0,2,4]"));
  CHECK(is_refused("[2,0,2,4]", "[4,0,2,4]"));
  CHECK(is_refused("[2,0,2,4]", "[2,2,2,4]"));
  CHECK(is_refused("[2,0,2,4]", "[2,0,4,4]"));
  CHECK(is_refused("[2,0,2,4]", "[2,0,2,5]"));
  CHECK(is_refused("[[2,0,2,4],[3,1,3,4]]", "[]"));
  CHECK(is_refused("\"node\":1", "\"node\":2"));
}

TEST_CASE("whom copies come from is named by numeric addresses") {
  const auto is_refused = [](const std::string& address) {
    const CoordinatorMessage standby = Standby{{{"n1", "30000/cafe", {address}}}};
    return std::holds_alternative<CodecError>(decode_coordinator_message(payload_of(encode(standby))));
  };
  CHECK_FALSE(is_refused("10.0.0.1"));
  CHECK(is_refused("n1.example.org"));
}

TEST_CASE("local peers that cannot be are named") {
  const auto start = [](const std::string& fields) {
    const auto decoded = decode_coordinator_message(
        R"({"type":"start","assignment":{"attempt":0,"world_size":2,"local_world_size":1,"node":0,)"
        R"("node_count":2,"address":"10.0.0.1","port":41000,"agent_per_task":false,"workers":[[0,0,0,1]],)" +
        fields + "}}");
    return std::holds_alternative<CodecError>(decoded) ? std::get<CodecError>(decoded).what : "";
  };
  const std::string prefix = "an invalid message: ";
  CHECK(start(R"("local_peers":[[0,1,1]])").empty());
  CHECK(start(R"("local_peers":[[0,1]])") == prefix + "\"local_peers\" has a row of wrong width");
  CHECK(start(R"("local_peers":[[0,1,4096],[1,1,1]])") == prefix + "\"local_peers\" have too many workers");
  CHECK(start(R"("local_peers":[[0,1,2]],"devices":[["0"]])") == prefix + "\"devices\" is too short");
  CHECK(start(R"("local_peers":[[0,1,1]],"devices":[["0"],["1"]])") == prefix + "\"devices\" is too long");
  CHECK(start(R"("local_peers":[[0,1,1]],"devices":[[]])") ==
        prefix + "\"devices\" has a row of wrong width");
  CHECK(start(R"("local_peers":[[0,1,1]],"devices":[[0]])") == prefix + "\"devices\" is not a string");
}

TEST_CASE("a roster that cannot be is named") {
  const CoordinatorMessage roster = some_roster();
  const auto problem = [&](const std::string& what, const std::string& by) {
    const auto decoded = decode_coordinator_message(changed(roster, what, by));
    return std::holds_alternative<CodecError>(decoded) ? std::get<CodecError>(decoded).what : "";
  };
  const std::string prefix = "an invalid message: ";
  CHECK(problem("[[0,3],[5,5]]", "[[0,3],[4,4]]").empty());
  CHECK(problem("[[0,3],[5,5]]", "[[0,3],[3,5]]") == prefix + "\"agents\" are not in order");
  CHECK(problem("[[0,3],[5,5]]", "[[3,0]]") == prefix + "\"agents\" are not in order");
  CHECK(problem("[[0,3],[5,5]]", "[[0,2147483647]]") == prefix + "\"agents\" are not in order");
  CHECK(problem("[[0,3],[5,5]]", "[]") == prefix + "\"agents\" are none");
  CHECK(problem("\"number\":2", "\"number\":4") == prefix + "\"rolls\" are not in order");
  CHECK(problem("10.0.0.3", "n3") == prefix + "\"addresses\" are not numeric");
  CHECK(problem("\"own\":2", "\"own\":262144") == prefix + "\"own\" is out of range");
}

TEST_CASE(
    "a message is its fields in the order of their names, those that may be left out where there is "
    "something to tell") {
  CHECK(payload_of(encode(CoordinatorMessage{Stop{{1}, 64, true}})) ==
        R"({"attempt":1,"signal":64,"type":"stop","whole_tree":true})");
  CHECK(payload_of(encode(CoordinatorMessage{Standby{}})) == R"({"type":"standby"})");
  const std::string plain = payload_of(encode(CoordinatorMessage{Start{some_assignment()}}));
  CHECK(plain.find("pause") == std::string::npos);
  CHECK(plain.find("local_peers") == std::string::npos);
  CHECK(payload_of(encode(CoordinatorMessage{Start{some_assignment(), Milliseconds{250}}})) ==
        plain.substr(0, plain.find("\"type\"")) + R"("pause":250,)" + plain.substr(plain.find("\"type\"")));
}

TEST_CASE("a local peer without devices costs some ten bytes") {
  const auto size = [](int local_peers) {
    return encode(CoordinatorMessage{Start{with_plain_local_peers(local_peers)}}).size();
  };
  CHECK(size(128) - size(0) <= 128 * 10 + 16);
}

TEST_CASE("devices that need too much room are not told, their workers are") {
  plan::LocalPeerWorker worker{std::string(12, '\x01'),
                               {"\x01"}};  // 80 bytes in JSON, where there is room for 64
  plan::Announcement announcement;
  announcement.cpus = std::string(5000, '\x01');
  announcement.local_workers.assign(options::k_max_workers + 1, worker);
  announcement.local_workers.front().gpus.assign(17, "\x01");  // more than a worker may have
  const std::string join = encode(AgentMessage{Join{announcement, "0.1.0", "", 4}});
  CHECK(join.size() <= k_frame_header + k_max_frame);
  const auto joined = std::get<AgentMessage>(decode_agent_message(payload_of(join)));
  const plan::Announcement& told = std::get<Join>(joined).announcement;
  CHECK(told.cpus.size() == k_max_text);
  CHECK(told.local_workers == std::vector<plan::LocalPeerWorker>(options::k_max_workers));

  plan::Assignment assignment = some_assignment();
  assignment.local_peers.assign(options::k_max_workers, {{0}, true, {worker}});
  const std::string start = encode(CoordinatorMessage{Start{assignment}});
  CHECK(start.size() <= k_frame_header + k_max_frame);
  const auto started = std::get<CoordinatorMessage>(decode_coordinator_message(payload_of(start)));
  CHECK(std::get<Start>(started).assignment.local_peers ==
        std::vector<plan::LocalPeer>(options::k_max_workers, {{0}, true, {{}}}));
  assignment.local_peers.push_back({{0}, true, {worker}});
  const auto past = decode_coordinator_message(payload_of(encode(CoordinatorMessage{Start{assignment}})));
  CHECK(std::get<Start>(std::get<CoordinatorMessage>(past)).assignment.local_peers.empty());
}

TEST_CASE("deep nesting is refused without harm") {
  CHECK(error_of(std::string(50000, '[')) == "an invalid message: not an object");
}

TEST_CASE("what a worker wrote is cut so that it fits, and its last lines are kept") {
  report::Failure failure = some_failure();
  failure.message = std::string(20000, '\x01');               // six bytes each in JSON
  failure.last_lines.assign(100, std::string(2000, '\xff'));  // not UTF-8
  failure.last_lines.back() = "the end";
  report::Cause cause;
  cause.failure = failure;
  cause.detail = std::string(20000, '\x01');
  const Finish finish{cause, std::vector<report::Failure>(20, failure),
                      std::vector<std::string>(20, cause.detail), true};
  const std::string frame = encode(CoordinatorMessage{finish});
  CHECK(frame.size() <= k_frame_header + k_max_frame);

  const auto decoded = decode_coordinator_message(payload_of(frame));
  REQUIRE(std::holds_alternative<CoordinatorMessage>(decoded));
  const auto& kept = std::get<Finish>(std::get<CoordinatorMessage>(decoded));
  CHECK(kept.cause.failure.last_lines.size() == k_max_failure_lines);
  CHECK(kept.cause.failure.last_lines.back() == "the end");
  CHECK(kept.others.size() == k_max_further_failures);
}

TEST_CASE("of a long message its end is kept, from a line's begin on, and how much was cut is counted") {
  std::string message = "Traceback (most recent call last):\n";
  for (int line = 0; line < 2000; ++line) message += "  File \"model.py\", line 7, in f\n";
  message += "ValueError: the cause";
  AttemptFailed failed{Attempt{0}, some_failure()};
  failed.failure.message = message;
  failed.failure.message_cut = 0;
  const report::Failure first = std::get<AttemptFailed>(round_trip(failed)).failure;
  CHECK(first.message.size() <= k_max_failure_text);
  CHECK(first.message.ends_with("\nValueError: the cause"));
  CHECK(first.message.starts_with("  File "));
  CHECK(first.message_cut + first.message.size() == message.size());

  const Stopped stopped{Attempt{0}, {first}};  // told on where less is kept
  const report::Failure further = std::get<Stopped>(round_trip(stopped)).failures.front();
  CHECK(further.message.size() <= k_max_further_text);
  CHECK(further.message.ends_with("\nValueError: the cause"));
  CHECK(further.message_cut + further.message.size() == message.size());
}

TEST_CASE("of one very long line whole characters are kept") {
  AttemptFailed failed{Attempt{0}, some_failure()};
  failed.failure.message = "E" + std::string(20000, 'x');
  for (int i = 0; i < 10000; ++i) failed.failure.message += "\u00e4";
  failed.failure.message += ".";  // an even number of bytes is cut off within a character
  const std::string kept = std::get<AttemptFailed>(round_trip(failed)).failure.message;
  CHECK(kept.size() == k_max_failure_text - 1);
  CHECK(kept.starts_with("\u00e4"));
  CHECK(kept.ends_with("\u00e4."));
}

namespace {

using Json = nlohmann::json;

// A peer that has the key and is broken: each value of each message, one at a time, by what it may not be.
constexpr std::array k_hostile_values{
    "-1",   "-128",  "0",    "256", "65536", "4097", "1e+67", "1.5", "2147483648", "-9223372036854775807",
    "\"\"", "\"x\"", "null", "[]",  "{}",    "true"};

// The text of `whole` in two parts, between which the value at `path` stood.
std::pair<std::string, std::string> around(Json whole, const std::string& path) {
  static const std::string k_mark = "the value's place";
  whole[Json::json_pointer(path)] = k_mark;
  const std::string text = write_json_text(whole);
  const std::size_t at = text.find('"' + k_mark + '"');
  return {text.substr(0, at), text.substr(at + k_mark.size() + 2)};
}

int exit_code_in(const AgentMessage& message) {
  if (const auto* failed = std::get_if<AttemptFailed>(&message))
    return report::exit_code_of(failed->failure.status);
  if (const auto* stopped = std::get_if<Stopped>(&message)) {
    for (const report::Failure& failure : stopped->failures) {
      if (report::exit_code_of(failure.status) == 0) return 0;
    }
  }
  return 1;
}

int exit_code_in(const CoordinatorMessage& message) {
  const auto* finish = std::get_if<Finish>(&message);
  return finish == nullptr || finish->cause.kind == report::Cause::Kind::success
             ? 1
             : report::exit_code_of(finish->cause);
}

struct Tried {
  std::set<std::string> places;  // one of a list stands for all of it
  int refused = 0;
  int taken = 0;  // it is what the message would be with that value
  int wrong = 0;
};

// What is taken has to be whole: it is the same when it is sent on.
template <class Message, class Decode>
void try_each_value(const Message& message, const Decode& decode, Tried& tried) {
  const Json whole = read_json_text(payload_of(encode(message)));
  const Json leaves = whole.flatten();
  for (const auto& [path, leaf] : leaves.items()) {
    std::string place = whole["type"].get<std::string>() + path;
    std::replace_if(
        place.begin(), place.end(), [](char c) { return c >= '0' && c <= '9'; }, '*');
    if (!tried.places.insert(place).second) continue;
    const auto [before, after] = around(whole, path);
    for (const char* const value : k_hostile_values) {
      CAPTURE(path, value);
      const auto decoded = decode(before + value + after);
      if (std::holds_alternative<CodecError>(decoded)) {
        ++tried.refused;
        continue;
      }
      const auto again = decode(payload_of(encode(std::get<Message>(decoded))));
      const bool whole_again =
          std::holds_alternative<Message>(again) && std::get<Message>(again) == std::get<Message>(decoded);
      const bool good = whole_again && exit_code_in(std::get<Message>(decoded)) != 0;
      CHECK(good);
      good ? ++tried.taken : ++tried.wrong;
    }
  }
}

}  // namespace

TEST_CASE(
    "a broken peer's values are refused, or taken as what they are, and never make a success of a failure") {
  Tried tried;
  for (const AgentMessage& message : agent_messages())
    try_each_value(
        message, [](std::string_view payload) { return decode_agent_message(payload); }, tried);
  for (const CoordinatorMessage& message : coordinator_messages())
    try_each_value(
        message, [](std::string_view payload) { return decode_coordinator_message(payload); }, tried);
  CAPTURE(tried.refused, tried.taken);
  CHECK(tried.wrong == 0);
  CHECK(tried.refused > 1000);
  CHECK(tried.taken > 100);
}
