#include "allocation/detection/started.hpp"
#include "allocation/detection/detect.hpp"
#include "allocation/hostlist.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

facts::Snapshot on_host(const std::string& name, facts::Environment environment = {}) {
  facts::Snapshot snapshot;
  snapshot.host.name = name;
  snapshot.environment = std::move(environment);
  return snapshot;
}

PlaceOptions listing(std::vector<std::string> hosts) {
  PlaceOptions options;
  options.hosts = sourced(std::move(hosts), "--hosts");
  return options;
}

const facts::Environment k_started{{"DDPRUN_FRONT_END", "10.0.0.1:4000/8f3c"},
                                   {"DDPRUN_FRONT_END_KEY", "secret"},
                                   {"DDPRUN_HOSTS", "n[1-3]"},
                                   {"DDPRUN_JOB", "pbs/12.server"},
                                   {"DDPRUN_REMOTE_LAUNCHER", "ssh"}};

facts::Environment started_with(const std::string& name, const std::string& value) {
  facts::Environment environment = k_started;
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("a started ddprun is where the one that started it says") {
  const Allocation allocation =
      detect_allocation(on_host("anything", started_with("DDPRUN_NODE_RANK", "2")), {});
  CHECK(allocation.style.value == LaunchStyle::agent_per_node);
  CHECK(allocation.scheduler.value == facts::Scheduler::pbs);
  CHECK(allocation.job_id.value == "12.server");
  CHECK(allocation.hosts.value == std::vector<Host>{{"n1", 1}, {"n2", 1}, {"n3", 1}});
  CHECK(allocation.node_index == sourced(std::optional(NodeIndex{2}), "DDPRUN_NODE_RANK"));
  CHECK(allocation.launcher.value == "ssh");
  CHECK(launch_key(allocation) == "pbs/12.server/0/-/8f3c");
  CHECK(allocation.secrets ==
        std::vector<JobSecret>{{SecretKind::front_end, "secret", "DDPRUN_FRONT_END_KEY"}});
}

TEST_CASE("its host's name tells the place, and an MPI launcher's rank where the name does not") {
  CHECK(detect_allocation(on_host("N2.cluster.example", k_started), {}).node_index ==
        sourced(std::optional(NodeIndex{1}), "host name"));
  CHECK(detect_allocation(on_host("elsewhere", started_with("PMI_RANK", "1")), {}).node_index ==
        sourced(std::optional(NodeIndex{1}), "PMI_RANK"));
  CHECK(error_of([] { detect_allocation(on_host("elsewhere", k_started), {}); }) ==
        "this host, elsewhere, is not among the hosts of this launch: n[1-3] | give the hosts as their own "
        "hostname command names them; if DDPRUN_HOSTS is left from another launch, unset it | 125");
}

TEST_CASE("the front end's umask is an octal number") {
  CHECK(find_front_end_umask(on_host("a", {{"DDPRUN_UMASK", "077"}})) == 077);
  CHECK_FALSE(find_front_end_umask(on_host("a")));
  CHECK(error_of([] {
          find_front_end_umask(on_host("a", {{"DDPRUN_UMASK", "8"}}));
        }) == "DDPRUN_UMASK is not an octal number: '8' | unset it | 125");
}

TEST_CASE("the front end says whether somebody types for rank 0") {
  CHECK(has_front_end_terminal(on_host("a", {{"DDPRUN_TERMINAL", "1"}})));
  CHECK_FALSE(has_front_end_terminal(on_host("a")));
  CHECK(is_front_end_variable("DDPRUN_TERMINAL"));  // so that no worker has it
}

TEST_CASE("listed hosts are to be started, but for this one alone") {
  const Allocation two = detect_allocation(on_host("b"), listing({"a", "b"}));
  CHECK(two.style == sourced(LaunchStyle::not_started, "--hosts"));
  CHECK(two.node_index == sourced(std::optional(NodeIndex{1}), "host name"));
  CHECK(detect_allocation(on_host("a"), listing({"a"})).style.value == LaunchStyle::alone);
  CHECK(detect_allocation(on_host("a"), listing({"b"})).style.value == LaunchStyle::not_started);
}

TEST_CASE("listed hosts beside a variable that is left from another launch are not forgotten in silence") {
  PlaceOptions options;
  options.hosts = sourced(std::vector<std::string>{"a", "b"}, "--hosts");
  const facts::Snapshot left_over = on_host("a", {{"DDPRUN_FRONT_END", "10.0.0.1:4000/8f3c"}});
  CHECK(error_of([&] { detect_allocation(left_over, options); }) ==
        "DDPRUN_FRONT_END is set without DDPRUN_HOSTS: stale variables from another launch | unset "
        "DDPRUN_FRONT_END | 125");
}

TEST_CASE("--nnodes takes the first of the listed hosts") {
  PlaceOptions options = listing({"a", "b", "c"});
  options.nodes = sourced(2, "--nnodes");
  CHECK(detect_allocation(on_host("x"), options).hosts.value == std::vector<Host>{{"a", 1}, {"b", 1}});
  options.nodes = sourced(4, "--nnodes");
  CHECK(usage_error_of([&] { detect_allocation(on_host("x"), options); }) ==
        "--nnodes 4, but --hosts names 3 hosts | name more hosts, or leave out --nnodes");
  options.nodes = sourced(1, "--nnodes");
  CHECK(detect_allocation(on_host("a"), options).style.value == LaunchStyle::alone);
}

TEST_CASE("a started ddprun with --hosts among its arguments is not to be started again") {
  const Allocation allocation = detect_allocation(on_host("n1", k_started), listing({"n1", "n2", "n3"}));
  CHECK(allocation.style.value == LaunchStyle::agent_per_node);
}

TEST_CASE("host files of Open MPI and hydra are read alike") {
  const HostFile file = parse_hostfile("# all\nn1 slots=4 max_slots=8\n\n n2:2 \nn1\nfd00::1\n", "hosts");
  CHECK(file.hosts == std::vector<std::string>{"n1", "n2", "fd00::1"});
  CHECK(file.slots);
  CHECK_FALSE(parse_hostfile("a\nb\n", "hosts").slots);
  CHECK(parse_hostfile("a\nb\na\n", "hosts").slots);
  CHECK(usage_error_of([] { parse_hostfile("a\n-oProxyCommand=x\n", "my hosts"); }) ==
        "my hosts line 2 has an invalid host name: '-oProxyCommand=x' | write host names separated by "
        "commas, as in n1,n2 or n[1-4]");
  CHECK(usage_error_of([] { parse_hostfile("# none\n", "my hosts"); }) ==
        "my hosts names no host | write one host on each line");
}

// With a comparison of each host with each other this takes minutes.
TEST_CASE("a list and a file of hosts take as many as there may be") {
  // A list's limit is that of expand_hostlist (hostlist_test.cpp); if it were quadratic these would take
  // minutes.
  CHECK(parse_hosts("n[1-10000],m[1-10000]", "--hosts").size() == 20000);
  std::string lines;
  for (std::size_t i = 0; i < k_max_hosts; ++i) lines.append("n").append(std::to_string(i)).append("\n");
  CHECK(parse_hostfile(lines, "hosts").hosts.size() == k_max_hosts);
}

TEST_CASE("--hosts takes lists and ranges, each host once") {
  CHECK(parse_hosts("a,n[1-2]", "--hosts") == std::vector<std::string>{"a", "n1", "n2"});
  CHECK(usage_error_of([] { parse_hosts("n[1-2],n1", "--hosts"); }) ==
        "--hosts names n1 twice, but one ddprun is started on each host | --nproc-per-node sets the number "
        "of workers on each host");
  CHECK(usage_error_of([] { parse_hosts("", "--hosts"); }) ==
        "--hosts names no host | give host names, as in --hosts n1,n2");
  CHECK(usage_error_of([] { parse_hosts("a;b", "--hosts"); }) ==
        "--hosts is not a host list: ';' is not allowed in host names in \"a;b\" | write host names "
        "separated by commas, as in n1,n2 or n[1-4]");
}
