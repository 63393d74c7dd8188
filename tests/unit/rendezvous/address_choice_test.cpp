#include "rendezvous/coordinator_address.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

const AddressWitness k_first{"n1", true, "", std::nullopt};

AddressWitness witness(const std::string& host, const std::string& reached,
                       std::optional<std::vector<std::string>> probed = std::nullopt) {
  return {host, false, reached, std::move(probed)};
}

}  // namespace

TEST_CASE("addresses are compared without mapping and scope") {
  CHECK(plain_address("::ffff:10.0.0.1") == "10.0.0.1");
  CHECK(plain_address("FE80::1%eth0") == "fe80::1");
  CHECK(plain_address("fd00::1") == "fd00::1");
}

TEST_CASE("an address that means something else on each host cannot be announced") {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "::1", "::", "0.0.0.0", "fe80::1%eth0", "febf::1",
                              "::ffff:127.0.0.1", "", "n1", "10.0.0.1\x1b[2J"}) {
    CAPTURE(address);
    CHECK_FALSE(crosses_hosts(address));
  }
  for (const char* address : {"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "2001:db8::1", "fec0::1"}) {
    CAPTURE(address);
    CHECK(crosses_hosts(address));
  }
}

TEST_CASE("what all reached is the address") {
  CHECK(agreed_address({k_first, witness("n2", "10.0.0.1"), witness("n3", "::ffff:10.0.0.1")},
                       {"10.9.9.9"}) == "10.0.0.1");
}

TEST_CASE("an agent on the coordinator's own host has no vote") {
  const AddressWitness beside{"n1", true, "127.0.1.1", std::nullopt};
  CHECK(agreed_address({k_first, beside, witness("n2", "10.0.0.1")}, {}) == "10.0.0.1");
}

TEST_CASE("on one host loopback is fine") {
  CHECK(agreed_address({k_first}, {}) == "127.0.0.1");
  CHECK(agreed_address({k_first, {"n1", true, "127.0.1.1", std::nullopt}}, {"10.0.0.1"}) == "10.0.0.1");
}

TEST_CASE("different addresses, or a loopback one from afar, have to be asked about") {
  CHECK_FALSE(agreed_address({k_first, witness("n2", "10.0.0.1"), witness("n3", "10.1.0.1")}, {}));
  CHECK_FALSE(agreed_address({k_first, witness("n2", "127.0.0.1")}, {}));
}

TEST_CASE("candidates are the own addresses, best first, then what somebody reached") {
  const std::vector<AddressWitness> witnesses{k_first, witness("n2", "10.2.0.1"), witness("n3", "127.0.0.1")};
  CHECK(addresses_to_probe(witnesses, {"10.1.0.1", "127.0.0.1", "10.0.0.1", "10.1.0.1"}) ==
        std::vector<std::string>{"10.1.0.1", "10.0.0.1", "10.2.0.1"});
}

TEST_CASE("the best address that all reach is taken; the join itself counts") {
  const std::vector<std::string> candidates{"10.1.0.1", "10.0.0.1", "10.2.0.1"};
  const std::vector<AddressWitness> witnesses{k_first, witness("n2", "10.0.0.1", {{"10.2.0.1"}}),
                                              witness("n3", "10.2.0.1", {{"10.0.0.1", "10.2.0.1"}})};
  CHECK(common_address(witnesses, candidates) == "10.0.0.1");
}

TEST_CASE("who cannot reach what is said") {
  const std::vector<std::string> candidates{"10.1.0.1", "10.0.0.1"};
  const std::vector<AddressWitness> witnesses{k_first, witness("n2", "10.0.0.1", {{}}),
                                              witness("n3", "10.1.0.1", {{}}), witness("n4", "", {{}}),
                                              witness("n5", "")};
  CHECK_FALSE(common_address(witnesses, candidates));
  CHECK(describe_no_common_address("n1", witnesses, candidates) ==
        "no address of n1 is reached by all nodes (tried 10.1.0.1, 10.0.0.1): n5 did not answer in time; n2 "
        "reached 10.0.0.1; n3 reached 10.1.0.1; n4 reached none");
  CHECK(describe_no_common_address("n1", witnesses, {}) ==
        "n1 has no address that other hosts can use, only loopback ones");
}

TEST_CASE("why an address was not reached is said with it") {
  AddressWitness slow = witness("n2", "10.0.0.1", {{}});
  slow.failures = {"10.1.0.1: no answer within 3 s"};
  CHECK(describe_no_common_address("n1", {k_first, slow, witness("n3", "10.1.0.1", {{}})},
                                   {"10.1.0.1", "10.0.0.1"}) ==
        "no address of n1 is reached by all nodes (tried 10.1.0.1, 10.0.0.1): n2 reached 10.0.0.1 (10.1.0.1: "
        "no "
        "answer within 3 s); n3 reached 10.1.0.1");
}

TEST_CASE("the interface of an address is the one that has it, and never a loopback one") {
  const std::vector<facts::InterfaceAddress> own{{"lo", "127.0.0.1", 8, true},
                                                 {"lo", "10.9.9.9", 32, true},
                                                 {"eth0", "192.168.1.2", 24, false},
                                                 {"ib0", "192.168.2.2", 24, false},
                                                 {"ib0", "fd00::2", 64, false}};
  CHECK(interface_of(own, "192.168.1.2") == "eth0");
  CHECK(interface_of(own, "192.168.2.2") == "ib0");
  CHECK(interface_of(own, "FD00::2") == "ib0");
  CHECK(interface_of(own, "::ffff:192.168.2.2") == "ib0");
  CHECK(interface_of(own, "127.0.0.1").empty());
  CHECK(interface_of(own, "10.9.9.9").empty());
  CHECK(interface_of(own, "192.168.1.3").empty());
  CHECK(interface_of(own, "").empty());
}
