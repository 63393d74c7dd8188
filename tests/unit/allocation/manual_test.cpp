#include "allocation/manual.hpp"
#include "allocation/detection/detect.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

PlaceOptions two_nodes() {
  PlaceOptions options;
  options.nodes = sourced(2, "--nnodes");
  options.node_rank = sourced(1, "--node-rank");
  options.address = sourced<std::string>("n1", "--master-addr");
  return options;
}

facts::Snapshot on_host(const std::string& name) {
  facts::Snapshot snapshot;
  snapshot.host.name = name;
  snapshot.host.pid = 7;
  return snapshot;
}

Allocation detect(const PlaceOptions& options) { return detect_allocation(on_host("n2"), options); }

}  // namespace

TEST_CASE("torchrun's flags place one agent a node") {
  const Allocation allocation = detect(two_nodes());
  CHECK(allocation.scheduler.value == facts::Scheduler::manual);
  CHECK(allocation.style.value == LaunchStyle::agent_per_node);
  CHECK(allocation.hosts.value == std::vector<Host>{{"node 0", 1}, {"n2", 1}});
  CHECK(allocation.node_index == sourced(std::optional(NodeIndex{1}), "--node-rank"));
  CHECK(allocation.task_rank.value == 1);
  CHECK(allocation.task_count.value == 2);
  CHECK(allocation.first_address->value == "n1");
  CHECK(launch_key(allocation) == "manual/none");
}

TEST_CASE("without node ranks the host of the endpoint is node 0 and the others are numbered as they come") {
  PlaceOptions options = two_nodes();
  options.node_rank.reset();
  const Allocation other = detect(options);
  CHECK(other.numbered_by_arrival);
  CHECK(other.node_index == sourced(std::optional<NodeIndex>(), "order of arrival"));
  CHECK(other.task_count.value == 2);
  CHECK(other.hosts.value == std::vector<Host>{{"node 0", 1}, {"node 1", 1}});
  const Allocation first = detect_allocation(on_host("n1.cluster"), options);
  CHECK(first.numbered_by_arrival);
  CHECK(first.node_index == sourced(std::optional(NodeIndex{0}), "has the address of --master-addr"));
  CHECK(launch_key(first) == launch_key(other));
  CHECK_FALSE(detect(two_nodes()).numbered_by_arrival);
}

TEST_CASE("a host knows its address by number, by name, and by what a name leads to") {
  facts::Snapshot snapshot = on_host("n2.cluster");
  snapshot.host.addresses = {{"eth0", "10.0.0.2", 24, false}, {"lo", "127.0.0.1", 8, true}};
  snapshot.names = {{"head", "10.0.0.1 10.0.0.2"}, {"else", "10.0.0.9"}, {"odd", "127.0.0.1"}};
  for (const char* own : {"10.0.0.2", "n2", "N2.cluster", "localhost", "head"})
    CHECK(is_own_name(own, snapshot));
  for (const char* other : {"10.0.0.1", "n3", "else", "odd", "unknown"})
    CHECK_FALSE(is_own_name(other, snapshot));
}

TEST_CASE("only a name that could be this host's is looked up") {
  const facts::Snapshot snapshot = on_host("n2");
  PlaceOptions options = two_nodes();
  CHECK(name_to_look_up(snapshot, options).empty());  // its rank is given
  options.node_rank.reset();
  CHECK(name_to_look_up(snapshot, options) == "n1");
  for (const char* clear : {"n2", "localhost", "10.0.0.1", "fe80::1"}) {
    options.address->value = clear;
    CHECK(name_to_look_up(snapshot, options).empty());
  }
}

TEST_CASE("the port defaults as in torchrun") {
  PlaceOptions options = two_nodes();
  CHECK(detect(options).first_port == by_default(29500));
  options.address->source = Source::endpoint;
  CHECK(detect(options).first_port == by_default(29400));
  options.port = sourced(1234, "--rdzv-endpoint");
  CHECK(detect(options).first_port == sourced(1234, "--rdzv-endpoint"));
}

TEST_CASE("the run id keys a launch by hand") {
  PlaceOptions options = two_nodes();
  options.run_id = sourced<std::string>("run7", "--rdzv-id");
  CHECK(launch_key(detect(options)) == "manual/run7");
}

TEST_CASE("flags that miss or contradict each other are refused") {
  const auto refused = [](const PlaceOptions& options, const std::string& what, const std::string& hint) {
    try {
      detect(options);
      FAIL("expected: " << what);
    } catch (const UsageError& error) {
      CHECK(std::string(error.what()) == what);
      CHECK(error.hint() == hint);
    }
  };
  PlaceOptions options = two_nodes();
  options.node_rank = sourced(2, "--node-rank");
  refused(options, "--node-rank 2 is out of range for --nnodes 2", "node ranks are 0 to --nnodes - 1");
  options.nodes.reset();
  refused(options, "--node-rank 2 is out of range for one node (no --nnodes)",
          "node ranks are 0 to --nnodes - 1");

  options = two_nodes();
  options.address.reset();
  refused(options, "--nnodes 2 requires the address of node 0",
          "add --master-addr HOST or --rdzv-endpoint HOST:PORT, the same on every node");

  options = two_nodes();
  options.port = sourced(70000, "--master-port");
  refused(options, "--master-port 70000 is not a port", "ports are 1 to 65535");
  options.port = sourced(0, "--rdzv-endpoint");
  refused(options, "--rdzv-endpoint 0 needs a single node",
          "give a port, the same on every node, or leave it out");

  options = two_nodes();
  options.nodes = sourced(300000, "--nnodes");
  refused(options, "--nnodes 300000 is more than 131072 nodes", "");
}

TEST_CASE("--node-rank without --nnodes and an address is out of range") {
  PlaceOptions options;
  options.node_rank = sourced(1, "--node-rank");
  CHECK(usage_error_of([&] { detect(options); }) ==
        "--node-rank 1 is out of range for one node (no --nnodes) | node ranks are 0 to --nnodes - 1");
}

TEST_CASE("without flags or a scheduler a process is alone") {
  PlaceOptions options;
  const Allocation allocation = detect(options);
  CHECK(allocation.scheduler.value == facts::Scheduler::none);
  CHECK(allocation.style.value == LaunchStyle::alone);
  CHECK(allocation.hosts.value == std::vector<Host>{{"n2", 1}});
  CHECK(allocation.task_count.value == 1);
  CHECK(launch_key(allocation) == "alone/n2.7");
  options = two_nodes();
  options.standalone = true;
  CHECK(detect(options).style == sourced(LaunchStyle::alone, "--standalone"));
}

TEST_CASE("names of this host only") {
  for (const char* name : {"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"})
    CHECK(is_loopback_name(name));
  for (const char* name : {"n1", "10.0.0.1", "128.0.0.1", "::2"}) CHECK_FALSE(is_loopback_name(name));
}

TEST_CASE("schedulers and styles have names for people") {
  CHECK(to_string(facts::Scheduler::none) == "none");
  CHECK(to_string(facts::Scheduler::manual) == "manual");
  CHECK(to_string(facts::Scheduler::slurm) == "slurm");
  CHECK(to_string(LaunchStyle::alone) == "alone");
  CHECK(to_string(LaunchStyle::agent_per_node) == "one ddprun per node");
  CHECK(to_string(LaunchStyle::agent_per_task) == "one ddprun per task");
  CHECK(to_string(LaunchStyle::not_started) == "not started");
}

TEST_CASE("a job that is run again is the same job, and another launch; its steps are apart") {
  Allocation first;
  first.scheduler.value = facts::Scheduler::slurm;
  first.job_id.value = "29";
  first.step_id.value = "0";
  Allocation again = first;
  again.restart_count.value = 1;
  CHECK(job_key(again) == job_key(first));
  CHECK(launch_key(again) != launch_key(first));
  again.step_id.value = "1";
  CHECK(job_key(again) != job_key(first));
  again.job_id.value.clear();
  CHECK(job_key(again) == launch_key(again));
}
