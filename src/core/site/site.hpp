// Profiles of sites, as data known beforehand.
// A profile has the name of a node on the fast network, the interfaces of that network, and variables that
// the site's documentation asks for.
// Built in for some sites (src/core/site/sites), else from the files of site_folders() or --site.
// ddprun-formats(5) describes the format under SITE PROFILES.
//
// A profile only fills in what is open: the command line, the user's variables and the scheduler win. Which
// addresses work is still decided by the rendezvous, which tries the profile's before the plain ones.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/lined_json.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::site {

// All of its parts hold at once. Patterns are a shell's: * and ? and nothing else.
struct SiteCondition {
  std::string cluster;                           // SLURM_CLUSTER_NAME; empty: any
  std::string host;                              // this host's short name; empty: any
  std::map<std::string, std::string> variables;  // set, and with such a value
};

struct SiteProfile {
  std::string name;
  std::string source;  // "built in" or the file
  std::string description;
  std::vector<SiteCondition> match;                // one of them; none: only by --site
  std::vector<std::string> suffixes;               // "i": n1i is n1 on the network meant; best first
  std::vector<std::string> domains;                // ".hsn.example.org", used likewise
  std::vector<std::string> gloo_interfaces;        // exact names, best first
  std::string nccl_interfaces;                     // form of NCCL_SOCKET_IFNAME: prefixes, or exact after "="
  std::map<std::string, std::string> environment;  // for workers
  std::optional<std::pair<int, int>> ports;        // first and last where agents may look for each other
  std::vector<facts::OptionText> options;          // options of ddprun, below everything the user gave
  std::vector<std::string> switches;               // lines as of allocation::parse_host_order
  std::vector<std::string> notes;                  // for people: how to bind, what to load
};

// The profile of this launch, with what it means on this host.
struct SitePlan {
  SiteProfile profile;                            // without a name: no profile
  std::string origin;                             // evidence: "SLURM_CLUSTER_NAME", "host name", "--site"
  std::map<std::string, std::string> interfaces;  // GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME as far as the
                                                  // interfaces are here
  std::vector<allocation::Notice> notices;        // variables of the profile that are left out, and why
  bool known() const { return !profile.name.empty(); }
  std::string as_origin() const { return "site " + profile.name; }
};

// Throws UsageError that names `source`, the line and the key and says what is wrong.
SiteProfile parse_site_profile(const std::string& json, const std::string& source);
const std::vector<SiteProfile>& builtin_site_profiles();
std::span<const char* const> builtin_site_texts();  // profiles as JSON

// Returns the profiles of the user's folder, of /etc, then the built-in ones; in a folder by file name.
std::vector<SiteProfile> list_site_profiles(const facts::Snapshot& snapshot);
// Returns the variables that their conditions look at.
std::vector<std::string> site_variables(const std::vector<SiteProfile>& profiles);

bool names_site_file(const std::string& wanted);  // a --site that is a path
// Chooses by --site: "" is the first profile whose condition holds, "none" is none, a path is a file in
// snapshot.files, anything else a profile's name, which has to exist. Throws UsageError.
SitePlan choose_site(const facts::Snapshot& snapshot, const std::string& wanted);

// Puts addresses of the profile's interfaces first; else their order stays.
std::vector<facts::InterfaceAddress> prefer_site_interfaces(std::vector<facts::InterfaceAddress> addresses,
                                                            const SitePlan& site);

}  // namespace ddprun::site
