#include "plan/master_variables.hpp"

#include "catch.hpp"
#include "error_text.hpp"
#include "plan/finalise.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot machine(facts::Environment environment) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.pid = 77;
  snapshot.host.addresses = {{"eth0", "10.0.0.1", 24, false}};
  snapshot.environment = std::move(environment);
  return snapshot;
}

facts::Environment step_of_two_nodes() {
  return {{"SLURM_JOB_ID", "29"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_NODEID", "0"},
          {"SLURM_PROCID", "0"},
          {"SLURM_LOCALID", "0"}};
}

// As the command line puts what is exported into the options.
NodeProposal plan_with(facts::Environment environment, const facts::Environment& exported,
                       options::Options options = {}) {
  environment.insert(exported.begin(), exported.end());
  const MasterVariables master = read_master_variables(environment);
  options.command = {"train.py"};
  if (!options.place.port) options.place.port = master.port;
  if (!options.place.address) options.place.likely_address = master.address;
  return test::propose_node(machine(environment), options);
}

std::string notices_of(const NodeProposal& plan) {
  std::string text;
  for (const allocation::Notice& notice : plan.notices) text += notice.what + " | " + notice.hint + "\n";
  return text;
}

}  // namespace

TEST_CASE("an exported MASTER_PORT is the port of the store, and the plan says where it is from") {
  const NodeProposal plan = plan_with({}, {{"MASTER_PORT", "29600"}});
  CHECK(plan.store_port == 29600);
  CHECK(plan.allocation.first_port ==
        sourced(29600, "MASTER_PORT of the environment", Source::master_variable));
  CHECK(plan_with(step_of_two_nodes(), {{"MASTER_PORT", "29600"}}).rendezvous.ports.value ==
        std::vector<int>{29600});
  CHECK(other_port_hint(plan.allocation.first_port) ==
        "choose another MASTER_PORT, or unset it: ddprun finds a free one");
  CHECK(other_port_hint(std::nullopt) == "choose another --master-port, or none: ddprun finds a free one");
}

TEST_CASE("the address and port of a launch around this process are not the user's") {
  for (const char* name : {"TORCHELASTIC_RUN_ID", "DDPRUN_LAUNCH_ID"}) {
    const MasterVariables master =
        read_master_variables({{"MASTER_PORT", "29600"}, {"MASTER_ADDR", "n1"}, {name, "1"}});
    CHECK_FALSE(master.port);
    CHECK_FALSE(master.address);
  }
  CHECK_FALSE(read_master_variables({{"MASTER_PORT", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}}).port);
  CHECK(read_master_variables({{"MASTER_PORT", "1"}, {"RANK", "0"}}).port);
}

TEST_CASE("what is no port or no address is said and not followed") {
  CHECK(notices_of(plan_with({}, {{"MASTER_PORT", "75000"}})) ==
        "MASTER_PORT=75000 of the environment is ignored: it is not a port | set it to a number from 1 to "
        "65535, or unset it\n");
  CHECK(notices_of(plan_with({}, {{"MASTER_ADDR", "10.0.0.1 172.17.0.1"}})) ==
        "MASTER_ADDR=10.0.0.1 172.17.0.1 of the environment is ignored: it is not an address | set it to one "
        "host name or address, or unset it\n");
  CHECK(notices_of(plan_with({}, {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}})).empty());
}

TEST_CASE("one host alone follows a MASTER_ADDR that is its own") {
  for (const char* address : {"localhost", "127.0.0.1", "10.0.0.1", "n1.example.org"}) {
    const NodeProposal plan = plan_with({}, {{"MASTER_ADDR", address}});
    CHECK(plan.solo_address ==
          sourced(std::string(address), "MASTER_ADDR of the environment", Source::master_variable));
    CHECK(notices_of(plan).empty());
  }
  const NodeProposal left_over = plan_with({}, {{"MASTER_ADDR", "login1"}});
  CHECK(left_over.solo_address.value == "127.0.0.1");
  CHECK(notices_of(left_over) ==
        "MASTER_ADDR=login1 of the environment is ignored: no other host takes part in this launch | unset "
        "it; several hosts take part inside a job, or with --nnodes and --node-rank\n");
}

TEST_CASE("by hand MASTER_ADDR says where node 0 is") {
  options::Options options;
  options.place.nodes = sourced(2, "--nnodes");
  options.place.node_rank = sourced(1, "--node-rank");
  const NodeProposal plan = plan_with({}, {{"MASTER_ADDR", "10.0.0.9"}, {"MASTER_PORT", "29600"}}, options);
  CHECK(plan.rendezvous.addresses.value == std::vector<std::string>{"10.0.0.9"});
  CHECK(plan.rendezvous.addresses.origin == "MASTER_ADDR of the environment");
  CHECK(plan.rendezvous.ports.value == std::vector<int>{29600});
  options.place.address = sourced(std::string("10.0.0.8"), "--master-addr");
  CHECK(plan_with({}, {{"MASTER_ADDR", "10.0.0.9"}}, options).rendezvous.addresses.value ==
        std::vector<std::string>{"10.0.0.8"});
}

TEST_CASE("in a job MASTER_ADDR is tried before the first host, and a loopback address is not") {
  const NodeProposal plan = plan_with(step_of_two_nodes(), {{"MASTER_ADDR", "n1-ib0"}});
  CHECK(plan.rendezvous.addresses.value == std::vector<std::string>{"n1-ib0", "n1"});
  CHECK(plan.rendezvous.addresses.origin ==
        "MASTER_ADDR of the environment, then SLURM_STEP_NODELIST, first host");
  const NodeProposal same = plan_with(step_of_two_nodes(), {{"MASTER_ADDR", "n1"}});
  CHECK(same.rendezvous.addresses.value == std::vector<std::string>{"n1"});
  CHECK(notices_of(same).empty());
  const NodeProposal loopback = plan_with(step_of_two_nodes(), {{"MASTER_ADDR", "localhost"}});
  CHECK(loopback.rendezvous.addresses.value == std::vector<std::string>{"n1"});
  CHECK(notices_of(loopback) ==
        "MASTER_ADDR=localhost of the environment is ignored: it is a different host on each node | unset "
        "it: ddprun finds the first node\n");
}
