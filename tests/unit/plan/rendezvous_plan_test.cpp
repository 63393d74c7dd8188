#include "plan/rendezvous_plan.hpp"
#include "plan/propose.hpp"

#include "catch.hpp"
#include "plan/node_proposal.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot machine() {
  facts::Snapshot snapshot;
  snapshot.host.name = "n2";
  snapshot.environment["HOME"] = "/home/user";
  return snapshot;
}

// The second of two processes of hydra, one a node, whose hosts are not told.
allocation::Allocation launched() {
  allocation::Allocation allocation;
  allocation.launcher = sourced(std::string("hydra"), "PMI_RANK");
  allocation.launch_id = sourced(std::string("n1:40387"), "--control-port");
  allocation.style.value = allocation::LaunchStyle::agent_per_node;
  allocation.numbered_by_launcher = true;
  allocation.task_count.value = 2;
  allocation.task_rank.value = 1;
  allocation.node_index.value.reset();
  allocation.first_known = false;
  allocation.key_value_space = allocation::KeyValueSpace::pmi1;
  return allocation;
}

RendezvousPlan plan_for(const allocation::Allocation& allocation) {
  return make_rendezvous_plan(allocation, {}, machine());
}

// One of two tasks of pbsdsh, and one of two hosts that are joined by hand.
allocation::Allocation shared_job(facts::Scheduler scheduler) {
  allocation::Allocation allocation;
  allocation.scheduler.value = scheduler;
  allocation.job_id.value = "7.server";
  allocation.hosts.value = {{"n1", 1}, {"n2", 1}};
  allocation.node_index.value = NodeIndex{1};
  return allocation;
}

std::string key_for(const allocation::Allocation& allocation, const std::vector<std::string>& command,
                    const std::string& directory = "/home/user") {
  facts::Snapshot snapshot = machine();
  snapshot.working_directory = directory;
  options::Options options;
  options.command = command;
  return make_rendezvous_plan(allocation, options, snapshot).key;
}

// A step of four nodes, one ddprun on each, and what it was told.
allocation::Allocation in_step(int node, const std::string& address) {
  allocation::Allocation allocation;
  allocation.scheduler.value = facts::Scheduler::slurm;
  allocation.style.value = allocation::LaunchStyle::agent_per_node;
  allocation.hosts =
      sourced(std::vector<allocation::Host>{{"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}}, "a list");
  allocation.node_index.value = NodeIndex{node};
  allocation.task_count.value = 4;
  allocation.first_address = sourced(address, "--rdzv-endpoint");
  return allocation;
}

std::optional<allocation::Notice> foreign_address(const std::string& address, int node = 0) {
  NodeProposal plan;
  plan.allocation = in_step(node, address);
  plan.host = "n" + std::to_string(node + 1);
  facts::Snapshot snapshot;
  snapshot.host.name = plan.host;
  snapshot.host.addresses = {{"eth0", "192.168.1.1", 24, false}};
  plan.rendezvous = make_rendezvous_plan(plan.allocation, {}, snapshot);
  return find_foreign_address(plan, snapshot.host);
}

}  // namespace

TEST_CASE("the host that the user names coordinates, wherever it stands among the hosts") {
  const RendezvousPlan third = plan_for(in_step(2, "n3.cluster"));
  CHECK(third.role == RendezvousRole::coordinator);
  CHECK(third.agent == AgentIndex{0});
  CHECK(third.peers == std::vector<std::string>{"n3", "n1", "n2", "n4"});
  const RendezvousPlan first = plan_for(in_step(0, "n3.cluster"));
  CHECK(first.role == RendezvousRole::member);
  CHECK(first.agent == AgentIndex{1});
  CHECK(first.peers == third.peers);
  CHECK(first.addresses.value == std::vector<std::string>{"n3.cluster"});
  CHECK(plan_for(in_step(1, "n3.cluster")).agent == AgentIndex{2});
  CHECK(plan_for(in_step(3, "n3.cluster")).agent == AgentIndex{3});
  CHECK(plan_for(in_step(3, "n1")).peers == std::vector<std::string>{"n1", "n2", "n3", "n4"});
}

TEST_CASE("an address that is none of the hosts is tried first, and the first host beside it") {
  const RendezvousPlan second = plan_for(in_step(1, "login1"));
  CHECK(second.agent == AgentIndex{1});
  CHECK(second.addresses.value == std::vector<std::string>{"login1", "n1"});
  CHECK(second.addresses.origin == "--rdzv-endpoint, then a list, first host");
  allocation::Allocation manual = in_step(1, "login1");
  manual.scheduler.value = facts::Scheduler::manual;  // nobody knows the other hosts' names
  CHECK(plan_for(manual).addresses.value == std::vector<std::string>{"login1"});
}

TEST_CASE("the coordinator says that another host was named, unless the name may be its own") {
  const auto notice = foreign_address("login1");
  REQUIRE(notice);
  CHECK(notice->what == "--rdzv-endpoint login1 is not a node of this launch (n[1-4]), so n1 coordinates");
  CHECK(notice->hint == "leave --rdzv-endpoint out; ignore this if it is another name or address of n1");
  CHECK(foreign_address("192.168.1.9"));
  CHECK(foreign_address("n10"));
  CHECK_FALSE(foreign_address("192.168.1.1"));
  CHECK_FALSE(foreign_address("n1-ib0"));
  CHECK_FALSE(foreign_address("n1"));
  CHECK_FALSE(foreign_address("n3", 2));
  CHECK_FALSE(foreign_address("login1", 1));  // the coordinator says it for all
}

TEST_CASE("a coordinator that is not the node of rank 0 is worth a remark") {
  NodeProposal plan;
  plan.host = "n3";
  plan.allocation = in_step(2, "n3.cluster");
  const auto notice = find_coordinator_beside_rank_0(plan);
  REQUIRE(notice);
  CHECK(
      notice->what ==
      "--rdzv-endpoint n3.cluster makes n3 the coordinator: MASTER_ADDR leads there, but rank 0 runs on n1");
  CHECK(notice->hint ==
        "leave --rdzv-endpoint out, or give n1, for a script that expects rank 0 at MASTER_ADDR");
  plan.options.store = options::StoreHost::worker;  // MASTER_ADDR is rank 0's then
  CHECK_FALSE(find_coordinator_beside_rank_0(plan));
  plan.options.store = options::StoreHost::agent;
  plan.allocation = in_step(2, "n1");
  CHECK_FALSE(find_coordinator_beside_rank_0(plan));
  plan.allocation = in_step(2, "login1");
  CHECK_FALSE(find_coordinator_beside_rank_0(plan));
}

TEST_CASE("a node rank by hand that does not go with the address is named") {
  const auto said = [](int rank, const std::string& address, const std::string& looked_up = "") {
    NodeProposal plan;
    plan.host = "n1";
    plan.allocation.scheduler.value = facts::Scheduler::manual;
    plan.options.place.nodes = sourced(2, "--nnodes");
    plan.options.place.node_rank = sourced(rank, "--node-rank");
    plan.options.place.address = sourced(address, "--master-addr");
    facts::Snapshot snapshot;
    snapshot.host.name = "n1";
    snapshot.host.addresses = {{"eth0", "10.0.0.1", 24, false}};
    if (!looked_up.empty()) snapshot.names[address] = looked_up;
    const auto notice = find_misplaced_rank(plan, snapshot);
    return notice ? notice->what + " | " + notice->hint : "";
  };
  CHECK(said(0, "n2") ==
        "--node-rank 0 makes n1 node 0, but --master-addr n2 is not a name or address of it: the other nodes "
        "look "
        "for node 0 there | start node 0 on n2, or give an address of n1 on every node; ignore this if n2 "
        "leads to "
        "n1");
  CHECK(said(1, "localhost") ==
        "--master-addr localhost is n1 itself, but --node-rank 1 is not node 0: it waits for a node 0 on its "
        "own "
        "host | give the address of node 0's host; ignore this if node 0 runs on n1 too");
  CHECK_FALSE(said(1, "10.0.0.1").empty());
  CHECK_FALSE(said(0, "10.0.0.2").empty());
  for (const char* own : {"n1", "n1.cluster", "10.0.0.1", "localhost", "n1-ib0"}) CHECK(said(0, own).empty());
  CHECK(said(0, "master", "10.0.0.1").empty());
  CHECK(said(1, "n2").empty());
  CHECK(said(1, "10.0.0.2").empty());
}

TEST_CASE("an endpoint in --rdzv-conf has no effect, and that is said") {
  options::Options options;
  CHECK_FALSE(find_endpoint_in_conf(options));
  options.given["rdzv-conf"] = {"join_timeout=60,rdzv_endpoint=n1:29400", "--rdzv-conf"};
  CHECK(find_endpoint_in_conf(options) ==
        allocation::Notice{"rdzv_endpoint in --rdzv-conf has no effect",
                           "give it as an option of its own: --rdzv-endpoint n1:29400"});
  options.given["rdzv-conf"] = {"join_timeout=60", "--rdzv-conf"};
  CHECK_FALSE(find_endpoint_in_conf(options));
}

TEST_CASE("a host of a job whose flags make it wait for hosts started by hand knows why it may be alone") {
  NodeProposal plan;
  plan.host = "n1";
  plan.allocation.scheduler.value = facts::Scheduler::manual;
  plan.allocation.job_nodes = sourced(2, "SLURM_JOB_NODELIST");
  plan.options.place.nodes = sourced(2, "--nnodes");
  plan.options.place.node_rank = sourced(0, "--node-rank");
  const auto notice = explain_waiting_alone(plan);
  REQUIRE(notice);
  CHECK(notice->what ==
        "no other node has joined: with --nnodes 2 and --node-rank 0 ddprun runs on n1 only, and a batch "
        "script "
        "runs on the job's first node only");
  CHECK(notice->hint ==
        "leave out --nnodes and --node-rank: ddprun then starts itself on all nodes of the job");
  plan.allocation.job_nodes.value = 0;
  CHECK_FALSE(explain_waiting_alone(plan));
  plan.allocation.job_nodes.value = 2;
  plan.options.place.node_rank.reset();
  CHECK_FALSE(explain_waiting_alone(plan));
}

TEST_CASE("agents of a launcher have its numbers, and only this host's name is known") {
  const RendezvousPlan plan = plan_for(launched());
  CHECK(plan.agents == 2);
  CHECK(plan.agent == AgentIndex{1});
  CHECK(plan.role == RendezvousRole::member);
  CHECK(plan.peers == std::vector<std::string>{"", "n2"});
  CHECK(plan.key == "hydra/n1:40387");
  CHECK(plan.addresses.value.empty());
}

TEST_CASE("two launches in one job are told apart by program, arguments and directory") {
  const allocation::Allocation job = shared_job(facts::Scheduler::pbs);
  const std::string key = key_for(job, {"train.py", "a"});
  CHECK(key.starts_with("pbs/7.server/0/-/command-"));
  CHECK(key == key_for(job, {"train.py", "a"}));
  CHECK(key != key_for(job, {"train.py", "b"}));
  CHECK(key != key_for(job, {"train.py a"}));
  CHECK(key != key_for(job, {"train.py", "a"}, "/scratch"));
}

TEST_CASE("hosts that are joined by hand may be in different directories, not run different commands") {
  const allocation::Allocation manual = shared_job(facts::Scheduler::manual);
  CHECK(key_for(manual, {"train.py"}) == key_for(manual, {"train.py"}, "/scratch"));
  CHECK(key_for(manual, {"train.py"}) != key_for(manual, {"other.py"}));
}

TEST_CASE("an id of the user's names a launch, the job's number does not") {
  allocation::Allocation job = shared_job(facts::Scheduler::pbs);
  job.instance.value = "morning";
  CHECK(key_for(job, {"train.py"}) == key_for(job, {"other.py"}));
  for (const char* id : {"7", "7.server"}) {
    job.instance.value = id;
    CHECK(key_for(job, {"train.py"}) != key_for(job, {"other.py"}));
  }
}

TEST_CASE("a step and a launch of mpiexec have names of their own") {
  allocation::Allocation step = shared_job(facts::Scheduler::slurm);
  step.step_id.value = "0";
  CHECK(key_for(step, {"train.py"}) == "slurm/7.server/0/0");
  CHECK(key_for(launched(), {"train.py"}) == "hydra/n1:40387");
}

TEST_CASE("the candidates are tried in their order, and no more than a few dozen of them") {
  allocation::Allocation allocation = launched();
  for (int i = 0; i < 100; ++i) allocation.first_hints.push_back(sourced("h" + std::to_string(i), "a list"));
  const auto addresses = plan_for(allocation).addresses;
  CHECK(addresses.value.size() == 33);
  CHECK(addresses.value.front() == "h0");
  CHECK(addresses.value.back() == "h32");
  CHECK(addresses.origin == "a list");
}

TEST_CASE("a process that turns out to be one of several on a host is planned as one worker") {
  facts::Snapshot snapshot = machine();
  snapshot.environment.insert({{"PMI_RANK", "1"},
                               {"PMI_SIZE", "4"},
                               {"PMI_FD", "9"},
                               {"MPI_LOCALRANKID", "0"},
                               {"MPI_LOCALNRANKS", "1"},
                               {"CUDA_VISIBLE_DEVICES", "0,1"}});
  options::Options options;
  options.command = {"train.py"};
  const NodeProposal node = test::propose_node(snapshot, options);
  CHECK(node.workers.value == 2);
  CHECK(node.allocation.style_assumed);
  const NodeProposal task = propose_as_task(node, snapshot);
  CHECK(task.workers.value == 1);
  CHECK(task.offered.at(0).expected_rank == GlobalRank{1});
  CHECK(task.world_size.value == 4);
  CHECK(task.rendezvous.key_value_space == node.rendezvous.key_value_space);
  CHECK(task.allocation.style ==
        sourced(allocation::LaunchStyle::agent_per_task, "another host runs several ddprun processes"));
}

TEST_CASE("a connection that serves nobody after ddprun is taken from a single worker too") {
  options::Options options;
  options.command = {"train.py"};
  facts::Snapshot hydra = machine();
  hydra.environment.insert({{"PMI_RANK", "1"},
                            {"PMI_SIZE", "2"},
                            {"PMI_FD", "9"},
                            {"MPI_LOCALRANKID", "0"},
                            {"MPI_LOCALNRANKS", "1"}});
  REQUIRE(test::propose_node(hydra, options).rendezvous.key_value_space == allocation::KeyValueSpace::pmi1);
  CHECK(test::propose_node(hydra, options).changes.empty());  // an MPI program may go on with it
  facts::Snapshot open_mpi = machine();
  open_mpi.environment.insert({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                               {"PMIX_NAMESPACE", "1"},
                               {"PMIX_RANK", "1"},
                               {"PMIX_SERVER_URI2", "x"}});
  CHECK(test::propose_node(open_mpi, options).changes.empty());
  options.discovery = options::Discovery::pmi;
  CHECK(test::propose_node(open_mpi, options).changes.size() == 7);
}
