#include "plan/master_variables.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

using Texts = std::vector<std::string>;

facts::HostFacts host() {
  facts::HostFacts host;
  host.name = "n1";
  host.addresses = {
      {"lo", "127.0.0.1", 8, true}, {"eth0", "192.168.1.1", 24, false}, {"ib0", "192.168.2.1", 24, false}};
  return host;
}

std::string chosen(RendezvousRole role, const std::string& given, const Texts& leads_to) {
  NodeProposal plan;
  plan.host = "n1";
  plan.rendezvous.role = role;
  plan.rendezvous.agents = role == RendezvousRole::solo ? 1 : 2;
  try {
    const auto found = choose_local_address(sourced(given, "--local-addr"), leads_to, plan, host());
    return found ? found->value : "as without it";
  } catch (const UsageError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
}

const std::string k_hint = "; leave it out, or give one of 192.168.1.1, 192.168.2.1";

}  // namespace

TEST_CASE("--local-addr is an address of this host, or a name that leads to one") {
  const auto member = RendezvousRole::member;
  CHECK(chosen(member, "192.168.2.1", {"192.168.2.1"}) == "192.168.2.1");
  CHECK(chosen(member, "n1-ib0", {"fd00::7", "192.168.2.1"}) == "192.168.2.1");
  CHECK(chosen(member, "10.9.9.9", {"10.9.9.9"}) == "--local-addr 10.9.9.9 is not an address of n1" + k_hint);
  CHECK(chosen(member, "n2", {"192.168.1.2"}) ==
        "--local-addr n2 (192.168.1.2) is not an address of n1" + k_hint);
}

TEST_CASE("a coordinator's foreign address is for the others to prove") {
  CHECK(chosen(RendezvousRole::coordinator, "10.9.9.9", {"10.9.9.9"}) == "10.9.9.9");
  CHECK(chosen(RendezvousRole::coordinator, "gate", {"10.9.9.9"}) == "10.9.9.9");
  CHECK(chosen(RendezvousRole::solo, "10.9.9.9", {"10.9.9.9"}) ==
        "--local-addr 10.9.9.9 is not an address of n1" + k_hint);
}

TEST_CASE("loopback is refused with several nodes, but Debian's own name says nothing") {
  const auto coordinator = RendezvousRole::coordinator;
  CHECK(chosen(coordinator, "127.0.0.1", {"127.0.0.1"}) ==
        "--local-addr 127.0.0.1 is a different host on each of the 2 nodes" + k_hint);
  CHECK(chosen(coordinator, "localhost", {"::1", "127.0.0.1"}) ==
        "--local-addr localhost (::1, 127.0.0.1) is a different host on each of the 2 nodes" + k_hint);
  CHECK(chosen(coordinator, "n1", {"127.0.1.1"}) == "as without it");
  CHECK(chosen(RendezvousRole::solo, "localhost", {"127.0.0.1"}) == "localhost");
}
