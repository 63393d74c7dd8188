#include "catch.hpp"
#include "error_text.hpp"
#include "facts/lined_json.hpp"
#include "site/site.hpp"

using namespace ddprun;
using namespace ddprun::site;

namespace {

constexpr const char* k_hint = " | man ddprun-formats describes site profiles; --site none ignores them";

std::string refusal(const std::string& json) {
  return usage_error_of([&] { parse_site_profile(json, "ours.json"); });
}

// A profile with these further lines.
std::string profile(const std::string& lines) {
  return "{\n  \"format\": 1,\n  \"name\": \"ours\",\n" + lines + "\n}\n";
}

std::string refused(const std::string& where_and_why) {
  return "cannot use the site profile ours.json, " + where_and_why + k_hint;
}

}  // namespace

TEST_CASE("every key of a site profile is read") {
  const SiteProfile site = parse_site_profile(profile(R"(
    "description": "Ours",
    "match": [{"cluster": "a*", "host": "N?", "variables": {"SITE": "x"}}, {"host": "m*"}],
    "address": {"suffixes": ["i", "-hsn0"], "domains": ["fast.example.org"]},
    "interfaces": {"gloo": ["hsn0", "ib0"], "nccl": "=hsn0,hsn1"},
    "environment": {"UCX_TLS": "rc", "EMPTY": ""},
    "ports": "21000-21099",
    "switches": ["n[1-4] s0/leaf1", "n5 s0/leaf2"],
    "notes": ["one", "two"])"),
                                              "ours.json");
  CHECK(site.name == "ours");
  CHECK(site.source == "ours.json");
  CHECK(site.description == "Ours");
  REQUIRE(site.match.size() == 2);
  CHECK(site.match[0].cluster == "a*");
  CHECK(site.match[0].host == "n?");
  CHECK(site.match[0].variables == std::map<std::string, std::string>{{"SITE", "x"}});
  CHECK(site.suffixes == std::vector<std::string>{"i", "-hsn0"});
  CHECK(site.domains == std::vector<std::string>{"fast.example.org"});
  CHECK(site.gloo_interfaces == std::vector<std::string>{"hsn0", "ib0"});
  CHECK(site.nccl_interfaces == "=hsn0,hsn1");
  CHECK(site.environment == std::map<std::string, std::string>{{"EMPTY", ""}, {"UCX_TLS", "rc"}});
  CHECK(site.ports == std::pair(21000, 21099));
  CHECK(site.switches == std::vector<std::string>{"n[1-4] s0/leaf1", "n5 s0/leaf2"});
  CHECK(site.notes == std::vector<std::string>{"one", "two"});
}

TEST_CASE("a name is all that a site profile needs") {
  const SiteProfile site = parse_site_profile(R"({"format": 1, "name": "plain"})", "plain.json");
  CHECK(site.match.empty());
  CHECK_FALSE(site.ports);
}

TEST_CASE("what is wrong with a site profile is told by file, line and key") {
  CHECK(refusal("") ==
        "cannot use the site profile ours.json: it is empty or cannot be read" + std::string(k_hint));
  CHECK(refusal(std::string(facts::k_site_file_limit + 1, ' ')) ==
        "cannot use the site profile ours.json: it is larger than 64 KiB" + std::string(k_hint));
  CHECK(refusal("{\n\n  \"format\" 1}") ==
        refused("line 3, column 12: it is not JSON (unexpected number literal; expected ':')"));
  CHECK(refusal("{\"format\": 1,\n") ==
        refused("line 2, column 1: it is not JSON (unexpected end of input; expected string literal)"));
  CHECK(refusal("[]") == refused("line 1: it must be an object"));
  CHECK(refusal("{}") == refused("line 1: format is missing"));
  CHECK(refusal("{\n\"name\": \"x\",\n\"format\": 2}") ==
        refused("line 3: format must be 1, the format that this ddprun reads"));
  CHECK(refusal("{\"format\": 1}") == refused("line 1: name is missing"));
  CHECK(refusal("{\"format\": 1, \"name\": \"our site\"}") ==
        refused("line 1: name must be a word of letters, digits and -_."));
  CHECK(refusal("{\"format\": 1, \"name\": \"none\"}") == refused("line 1: name must not be none"));
  CHECK(refusal(profile("\"adress\": {}")) == refused("line 4: adress is not known; did you mean address?"));
  CHECK(refusal(profile("\"colour\": 1")) == refused("line 4: colour is not known"));
  CHECK(refusal(profile("\"notes\": [],\n\"notes\": []")) == refused("line 5: notes appears twice"));
  CHECK(refusal(profile("\"notes\": \"one\"")) == refused("line 4: notes must be a list"));
  CHECK(refusal(profile("\"notes\": [\"one\", 2]")) == refused("line 4: notes[1] must be text"));
  CHECK(refusal(profile("\"notes\": [\"\\u001b[31m\"]")) ==
        refused("line 4: notes[0] has characters that cannot be printed"));
  CHECK(refusal(profile("\"notes\": [\"" + std::string(1001, 'x') + "\"]")) ==
        refused("line 4: notes[0] is longer than 1000"));
  CHECK(refusal(profile("\"notes\": [[[[[[[1]]]]]]]")) == refused("line 4: it is nested too deeply"));
}

TEST_CASE("conditions of a site profile are checked") {
  CHECK(refusal(profile("\"match\": {}")) == refused("line 4: match must be a list"));
  CHECK(refusal(profile("\"match\": [\"x\"]")) == refused("line 4: match[0] must be an object"));
  CHECK(refusal(profile("\"match\": [\n{\"host\": \"a\"},\n{}]")) ==
        refused("line 4: match[1] must name a cluster, a host or variables"));
  CHECK(refusal(profile("\"match\": [\n{\"host\": \"a\"},\n{\"clusters\": \"b\"}]")) ==
        refused("line 6: match[1].clusters is not known; did you mean cluster?"));
  CHECK(refusal(profile("\"match\": [{\"variables\":\n{\"A B\": \"*\"}}]")) ==
        refused("line 5: match[0].variables.A B is not the name of a variable"));
  CHECK(refusal(profile("\"match\": [{\"variables\":\n{\"A\": 1}}]")) ==
        refused("line 5: match[0].variables.A must be text"));
}

TEST_CASE("settings of a site profile are checked") {
  CHECK(refusal(profile("\"address\": {\"suffixes\": [\"a b\"]}")) ==
        refused("line 4: address.suffixes[0] must be a part of a host name"));
  CHECK(refusal(profile("\"address\": {\"domains\": [\"\"]}")) ==
        refused("line 4: address.domains[0] must be a domain"));
  CHECK(refusal(profile("\"interfaces\": {\"gloo\": [\"a,b\"]}")) ==
        refused("line 4: interfaces.gloo[0] must be an interface"));
  CHECK(refusal(profile("\"interfaces\": {\"nccl\": \"a b\"}")) ==
        refused("line 4: interfaces.nccl must be a list as in NCCL_SOCKET_IFNAME"));
  CHECK(refusal(profile("\"environment\": {\n\"RANK\": \"1\"}")) ==
        refused("line 5: environment.RANK is set by ddprun itself"));
  CHECK(refusal(profile("\"environment\": {\n\"GLOO_SOCKET_IFNAME\": \"ib0\"}")) ==
        refused("line 5: environment.GLOO_SOCKET_IFNAME belongs under interfaces"));
  CHECK(refusal(profile("\"environment\": {\n\"HF_TOKEN\": \"x\"}")) ==
        refused("line 5: environment.HF_TOKEN looks like a secret, which does not belong in a profile"));
  for (const char* ports : {"21000", "80-90", "21099-21000", "21000-21000", "21000-70000", "a-b", ""}) {
    CAPTURE(ports);
    CHECK(refusal(profile("\"ports\": \"" + std::string(ports) + "\"")) ==
          refused("line 4: ports must be a range of several ports above 1023, such as 20000-20099"));
  }
}
