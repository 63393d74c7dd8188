#include "allocation/places/places.hpp"

#include "allocation/detection/detect.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

facts::Snapshot snapshot_of(facts::Environment environment) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.environment = std::move(environment);
  return snapshot;
}

std::string refusal_of(facts::Environment environment) {
  try {
    find_place(snapshot_of(std::move(environment)), {});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

const facts::Environment k_hook{
    {"SLURM_JOB_ID", "4537"}, {"PYTORCH_VERSION", "2.7"}, {"MASTER_PORT", "61001"}, {"OMP_NUM_THREADS", "1"}};

facts::Environment hook_with(const std::string& name, const std::string& value) {
  facts::Environment environment = k_hook;
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("hosts are read as places write them, IPv6 with and without brackets") {
  CHECK(parse_host_text("algo-1") == HostText{"algo-1", std::nullopt});
  CHECK(parse_host_text(" b-0.svc:2222 ") == HostText{"b-0.svc", 2222});
  CHECK(parse_host_text("10.0.0.5:29500") == HostText{"10.0.0.5", 29500});
  CHECK(parse_host_text("fdbd:dc03:9:1::5") == HostText{"fdbd:dc03:9:1::5", std::nullopt});
  CHECK(parse_host_text("[fdbd::5]:9000") == HostText{"fdbd::5", 9000});
  CHECK(parse_host_text("[fdbd::5]") == HostText{"fdbd::5", std::nullopt});
  for (const char* text : {"", " ", "a b", "a:", "a:0", "a:65536", "a:x", "[a]:1", "[::1", "[::1]1", "-a",
                           "tcp://10.0.0.11:1", "$(HOST)"}) {
    CAPTURE(text);
    CHECK(parse_host_text(text) == std::nullopt);
  }
}

TEST_CASE("a list of hosts has its empty entries left out, and names what is no host") {
  const auto list = read_host_list(sourced(std::string("a:1,,[::2]:3, c"), "LIST"), ',');
  CHECK(list.value == std::vector<std::string>{"a", "::2", "c"});
  CHECK(list.origin == "LIST");
  CHECK_THROWS_WITH(read_host_list(sourced(std::string("a,b c"), "LIST"), ','), "LIST names no host: 'b c'");
}

TEST_CASE("JSON of a place that is not what it should be is refused by name") {
  const auto sagemaker = [](const char* hosts) {
    return refusal_of({{"SM_HOSTS", hosts}, {"SM_CURRENT_HOST", "algo-1"}});
  };
  CHECK(sagemaker("{}") == "cannot use SM_HOSTS: its hosts are not a list");
  CHECK(sagemaker("[1]") == "cannot use SM_HOSTS: its list of hosts has something other than names");
  CHECK(sagemaker("[]").empty());
  const auto vertex = [](const std::string& rest) {
    return refusal_of({{"CLUSTER_SPEC", R"({"cluster":{"workerpool0":["a:1"])" + rest + "}"}});
  };
  CHECK(vertex("}") == "cannot use CLUSTER_SPEC: it does not name the task of this process");
  CHECK(vertex(R"(},"task":{"type":"workerpool0","index":-1})") ==
        "cannot use CLUSTER_SPEC: its task has no index from 0");
  CHECK(vertex(R"(,"workerpool1":{}},"task":{"type":"workerpool0","index":0})") ==
        "cannot use CLUSTER_SPEC: its workerpool1 is not a list");
  CHECK(refusal_of({{"CLUSTER_SPEC", R"({"cluster":"another program's"})"}}).empty());
}

TEST_CASE("a number of another form is refused by its variable") {
  CHECK(refusal_of({{"LWS_GROUP_SIZE", "two"}}) == "LWS_GROUP_SIZE=two is not a number from 1 to 131072");
  CHECK(refusal_of({{"LWS_GROUP_SIZE", "2"}, {"LWS_WORKER_INDEX", "-1"}}) ==
        "LWS_WORKER_INDEX=-1 is not a number from 0 to 131072");
}

TEST_CASE("the port and the threads of enroot's hook, and SkyPilot's threads, are no choice of the user") {
  CHECK(is_port_of_hook(k_hook));
  CHECK(find_threads_preset(k_hook) == "the container's hook");
  CHECK_FALSE(find_threads_preset(hook_with("OMP_NUM_THREADS", "4")));
  for (const auto& [name, value] :
       {std::pair{"MASTER_PORT", "29500"}, {"PYTORCH_VERSION", ""}, {"SLURM_JOB_ID", ""}}) {
    CAPTURE(name);
    CHECK_FALSE(is_port_of_hook(hook_with(name, value)));
    CHECK_FALSE(find_threads_preset(hook_with(name, value)));
  }
  facts::Environment sky{{"SKYPILOT_NODE_RANK", "0"}, {"RAY_JOB_ID", "02000000"}, {"OMP_NUM_THREADS", "1"}};
  CHECK(find_threads_preset(sky) == "SkyPilot");
  sky["OMP_NUM_THREADS"] = "8";
  CHECK_FALSE(find_threads_preset(sky));
}

TEST_CASE("DDPRUN_SECRET is a key of the launch, unless it is too short for one") {
  const facts::Environment two_nodes{{"NODE_RANK", "1"},
                                     {"NNODES", "2"},
                                     {"MASTER_ADDR", "10.0.0.1"},
                                     {"DDPRUN_SECRET", "0123456789abcdef"}};
  CHECK(detect_allocation(snapshot_of(two_nodes), {}).secrets ==
        std::vector<JobSecret>{{SecretKind::given, "0123456789abcdef", "DDPRUN_SECRET"}});
  CHECK_THROWS_WITH(detect_allocation(snapshot_of({{"DDPRUN_SECRET", "short"}}), {}),
                    "DDPRUN_SECRET has 5 characters, but at least 16 are required");
}
