#include "site/site.hpp"

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "error_text.hpp"
#include "facts/lined_json.hpp"
#include "plan/node_proposal.hpp"

using namespace ddprun;
using namespace ddprun::site;

namespace {

facts::Snapshot machine(facts::Environment environment, const std::string& host = "n1",
                        const std::vector<std::string>& interfaces = {}) {
  facts::Snapshot snapshot;
  snapshot.host.name = host;
  snapshot.environment = std::move(environment);
  for (const std::string& name : interfaces) snapshot.host.addresses.push_back({name, "10.0.0.1", 24, false});
  return snapshot;
}

// A profile whose only condition is `condition`.
std::string matching(const std::string& name, const std::string& condition) {
  return R"({"format": 1, "name": ")" + name + R"(", "match": [)" + condition + "]}";
}

std::string chosen(const facts::Snapshot& snapshot, const std::string& wanted = "") {
  const SitePlan site = choose_site(snapshot, wanted);
  return site.known() ? site.profile.name + ", " + site.origin : "none";
}

// A text that the pattern matches.
std::string example_of(std::string pattern) {
  std::erase(pattern, '*');
  std::replace(pattern.begin(), pattern.end(), '?', 'x');
  return pattern;
}

}  // namespace

TEST_CASE("the built-in sites are recognised") {
  CHECK(chosen(machine({{"SYSTEMNAME", "juwelsbooster"}})) == "jsc, SYSTEMNAME");
  CHECK(chosen(machine({{"SYSTEMNAME", "jurecadc"}})) == "jsc, SYSTEMNAME");
  CHECK(chosen(machine({{"SYSTEMNAME", "jupiter"}})) == "none");
  CHECK(chosen(machine({{"SLURM_CLUSTER_NAME", "aip2"}})) == "isambard-ai, SLURM_CLUSTER_NAME");
  CHECK(chosen(machine({{"PBS_JOBID", "1234.desched1"}})) == "derecho, PBS_JOBID");
  CHECK(chosen(machine({{"NCAR_HOST", "derecho"}})) == "derecho, NCAR_HOST");
  CHECK(chosen(machine({{"PBS_JOBID", "7.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"}})) ==
        "polaris, PBS_JOBID");
  CHECK(chosen(machine({{"PBS_JOBID", "7.aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov"}})) ==
        "aurora, PBS_JOBID");
  CHECK(chosen(machine({{"NERSC_HOST", "perlmutter"}})) == "perlmutter, NERSC_HOST");
  CHECK(chosen(machine({{"LMOD_SYSTEM_NAME", "frontier"}})) == "frontier, LMOD_SYSTEM_NAME");
  CHECK(chosen(machine({{"SLURM_CLUSTER_NAME", "lumi"}})) == "lumi, SLURM_CLUSTER_NAME");
  CHECK(chosen(machine({{"SLURM_CLUSTER_NAME", "leonardo"}})) == "leonardo, SLURM_CLUSTER_NAME");
  CHECK(chosen(machine({{"SLURM_CLUSTER_NAME", "snellius"}})) == "snellius, SLURM_CLUSTER_NAME");
  CHECK(chosen(machine({})) == "none");
}

TEST_CASE("built-in sites have different names and a description") {
  std::set<std::string> names;
  for (const SiteProfile& site : builtin_site_profiles()) {
    CHECK(names.insert(site.name).second);
    CHECK_FALSE(site.description.empty());
    CHECK_FALSE(site.match.empty());
    CHECK(site.source == "built in");
  }
  CHECK(names.size() >= 10);
}

TEST_CASE("a built-in site is chosen wherever one of its conditions holds") {
  for (const SiteProfile& site : builtin_site_profiles()) {
    for (const SiteCondition& condition : site.match) {
      facts::Environment environment;
      for (const auto& [name, pattern] : condition.variables) environment[name] = example_of(pattern);
      if (!condition.cluster.empty()) environment["SLURM_CLUSTER_NAME"] = example_of(condition.cluster);
      const std::string host = condition.host.empty() ? "n1" : example_of(condition.host);
      CHECK(choose_site(machine(environment, host), "").profile.name == site.name);
    }
  }
}

TEST_CASE("all parts of a condition hold at once") {
  const std::string condition = R"({"cluster": "c?", "host": "n*", "variables": {"SITE": "*x*"}})";
  facts::Snapshot snapshot = machine({{"SLURM_CLUSTER_NAME", "c1"}, {"SITE", "axxb"}}, "N12.example.org");
  snapshot.files["/etc/ddprun/sites.d/a.json"] = matching("a", condition);
  CHECK(chosen(snapshot) == "a, SITE, SLURM_CLUSTER_NAME, host name");
  for (const auto& [name, value] : facts::Environment{{"SLURM_CLUSTER_NAME", "c12"}, {"SITE", "ab"}}) {
    facts::Snapshot other = snapshot;
    other.environment[name] = value;
    CHECK(chosen(other) == "none");
    other.environment.erase(name);
    CHECK(chosen(other) == "none");
  }
  snapshot.host.name = "m12";
  CHECK(chosen(snapshot) == "none");
}

TEST_CASE("patterns that could be matched in many ways are decided at once") {
  facts::Snapshot snapshot = machine({{"SITE", std::string(5000, 'a')}});
  const std::string stars = "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b";
  snapshot.files["/etc/ddprun/sites.d/a.json"] =
      matching("a", R"({"variables": {"SITE": ")" + stars + "\"}}");
  CHECK(chosen(snapshot) == "none");
  snapshot.environment["SITE"] += "b";
  CHECK(chosen(snapshot) == "a, SITE");
}

TEST_CASE("of several sites that match, the user's comes first, then that of /etc, then the built-in one") {
  facts::Snapshot snapshot = machine({{"SLURM_CLUSTER_NAME", "lumi"}, {"HOME", "/home/u"}});
  const std::string condition = R"({"cluster": "lumi"})";
  CHECK(chosen(snapshot) == "lumi, SLURM_CLUSTER_NAME");
  snapshot.files["/etc/ddprun/sites.d/b.json"] = matching("b", condition);
  CHECK(chosen(snapshot) == "b, SLURM_CLUSTER_NAME");
  snapshot.files["/etc/ddprun/sites.d/a.json"] = matching("a", condition);
  CHECK(chosen(snapshot) == "a, SLURM_CLUSTER_NAME");
  snapshot.files["/home/u/.config/ddprun/sites.d/z.json"] = matching("z", condition);
  CHECK(chosen(snapshot) == "z, SLURM_CLUSTER_NAME");
  snapshot.environment["XDG_CONFIG_HOME"] = "/config";
  CHECK(chosen(snapshot) == "a, SLURM_CLUSTER_NAME");
  snapshot.files["/config/ddprun/sites.d/y.json"] = matching("y", condition);
  snapshot.files["/config/ddprun/sites.d/deeper/x.json"] = matching("x", condition);
  CHECK(chosen(snapshot) == "y, SLURM_CLUSTER_NAME");
}

TEST_CASE("--site names a profile, a file or none") {
  facts::Snapshot snapshot = machine({{"SLURM_CLUSTER_NAME", "lumi"}});
  CHECK(chosen(snapshot, "none") == "none");
  CHECK(chosen(snapshot, "frontier") == "frontier, --site");
  snapshot.files["./ours.json"] = matching("ours", R"({"host": "elsewhere"})");
  CHECK(chosen(snapshot, "./ours.json") == "ours, --site");
  CHECK(usage_error_of([&] { choose_site(snapshot, "fronteir"); }) ==
        "unknown --site 'fronteir' | did you mean frontier?");
  CHECK(usage_error_of([&] { choose_site(snapshot, "x"); }) ==
        "unknown --site 'x' | known sites: aurora, derecho, frontier, isambard-ai, jsc, leonardo, lumi, "
        "perlmutter, polaris, snellius; a file is given as a path, as in ./x.json");
  CHECK(names_site_file("ours.json"));
  CHECK(names_site_file("sites/ours"));
  CHECK_FALSE(names_site_file("lumi"));
}

TEST_CASE("interfaces are set where they are here") {
  const facts::Environment environment{{"SLURM_CLUSTER_NAME", "lumi"}};
  using Found = std::map<std::string, std::string>;
  CHECK(choose_site(machine(environment, "n1", {"lo", "hsn0", "hsn1"}), "").interfaces ==
        Found{{"GLOO_SOCKET_IFNAME", "hsn0"}, {"NCCL_SOCKET_IFNAME", "hsn"}});
  CHECK(choose_site(machine(environment, "n1", {"lo", "hsn1"}), "").interfaces ==
        Found{{"NCCL_SOCKET_IFNAME", "hsn"}});
  CHECK(choose_site(machine(environment, "n1", {"lo", "eth0"}), "").interfaces.empty());

  facts::Snapshot exact = machine({}, "n1", {"ib0"});
  const auto nccl_with = [&exact](const std::string& list) {
    exact.files["./a.json"] = R"({"format": 1, "name": "a", "interfaces": {"nccl": ")" + list + "\"}}";
    return choose_site(exact, "./a.json").interfaces;
  };
  CHECK(nccl_with("=ib0") == Found{{"NCCL_SOCKET_IFNAME", "=ib0"}});
  CHECK(nccl_with("=ib").empty());
  CHECK(nccl_with("eth,ib") == Found{{"NCCL_SOCKET_IFNAME", "eth,ib"}});
  CHECK(nccl_with("^docker") == Found{{"NCCL_SOCKET_IFNAME", "^docker"}});
}

TEST_CASE("addresses of the site's interfaces come first") {
  const std::vector<facts::InterfaceAddress> addresses{
      {"lo", "127.0.0.1", 8, true}, {"nmn0", "10.1.0.1", 16, false}, {"hsn0", "10.2.0.1", 16, false}};
  const SitePlan site = choose_site(machine({{"SLURM_CLUSTER_NAME", "lumi"}}), "");
  const auto ordered = site::prefer_site_interfaces(addresses, site);
  CHECK(ordered[0].interface == "hsn0");
  CHECK(ordered[1].interface == "lo");
  CHECK(site::prefer_site_interfaces(addresses, {}) == addresses);
}

TEST_CASE("where descriptions of sites may lie") {
  using Folders = std::vector<std::string>;
  CHECK(facts::site_folders({}) == Folders{"/etc/ddprun/sites.d"});
  CHECK(facts::site_folders({{"HOME", "/home/u"}}) ==
        Folders{"/home/u/.config/ddprun/sites.d", "/etc/ddprun/sites.d"});
  CHECK(facts::site_folders({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "/c"}}) ==
        Folders{"/c/ddprun/sites.d", "/etc/ddprun/sites.d"});
  CHECK(facts::site_folders({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "relative"}}) ==
        Folders{"/home/u/.config/ddprun/sites.d", "/etc/ddprun/sites.d"});
}

TEST_CASE("a capture keeps what a site is recognised by") {
  facts::Snapshot snapshot = machine({{"SYSTEMNAME", "jusuf"}, {"UNRELATED", "x"}});
  const auto names = site_variables(list_site_profiles(snapshot));
  CHECK(facts::without_secrets(snapshot, names).environment == facts::Environment{{"SYSTEMNAME", "jusuf"}});
}

TEST_CASE("variables of the user in a profile's values are replaced, and what is not set is left out") {
  facts::Snapshot snapshot = machine({{"SCRATCH", "/scratch/u"}, {"HOME", "/home/u"}, {"MINE", "kept"}});
  snapshot.files["./ours.json"] = R"({"format": 1, "name": "ours", "environment": {
    "CACHE": "$SCRATCH/cache", "MINE": "$NOWHERE/x", "OTHER": "~/x", "PLAIN": "1", "WORK": "${NOWHERE}/x"}})";
  const SitePlan site = choose_site(snapshot, "./ours.json");
  CHECK(site.profile.environment.at("CACHE") == "/scratch/u/cache");
  CHECK(site.profile.environment.at("OTHER") == "/home/u/x");
  CHECK(site.profile.environment.at("PLAIN") == "1");
  CHECK_FALSE(site.profile.environment.contains("WORK"));
  REQUIRE(site.notices.size() == 1);  // MINE is the user's own
  CHECK(site.notices[0] ==
        allocation::Notice{"the site ours (./ours.json) gives WORK the value ${NOWHERE}/x, but "
                           "NOWHERE is not set: WORK is left "
                           "out",
                           "export NOWHERE, or set WORK yourself"});
}
