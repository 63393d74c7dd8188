#include "site/site.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/site_folders.hpp"
#include "site/expand_value.hpp"

namespace ddprun::site {

namespace {

constexpr const char* k_cluster_variable = "SLURM_CLUSTER_NAME";

// Matches a shell's * and ?; the part that a * stands for only ever grows, so that no pattern takes long.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;
  std::size_t after_star = 0;
  while (at < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      after_star = at;
    } else if (in_pattern < pattern.size() &&
               (pattern[in_pattern] == '?' || pattern[in_pattern] == text[at])) {
      ++in_pattern;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

// Returns the evidence for the condition; nullopt when it does not hold.
std::optional<std::string> holds(const SiteCondition& condition, const facts::Snapshot& snapshot) {
  std::vector<std::string> told;
  for (const auto& [name, pattern] : condition.variables) {
    const auto value = facts::find_variable(snapshot, name);
    if (!value || !matches(*value, pattern)) return std::nullopt;
    told.push_back(name);
  }
  if (!condition.cluster.empty()) {
    const auto cluster = facts::find_variable(snapshot, k_cluster_variable);
    if (!cluster || !matches(*cluster, condition.cluster)) return std::nullopt;
    told.emplace_back(k_cluster_variable);
  }
  if (!condition.host.empty()) {
    if (!matches(to_lower(short_host_name(snapshot.host.name)), condition.host)) return std::nullopt;
    told.emplace_back("host name");
  }
  return join(told, ", ");
}

bool is_here(const facts::Snapshot& snapshot, std::string_view prefix, bool exact) {
  return std::ranges::any_of(snapshot.host.addresses, [&](const facts::InterfaceAddress& each) {
    return exact ? each.interface == prefix : each.interface.starts_with(prefix);
  });
}

// Reports whether NCCL would find an interface by such a list; one of exclusions always leaves some.
bool nccl_finds(const facts::Snapshot& snapshot, const std::string& list) {
  if (list.starts_with('^')) return true;
  const bool exact = list.starts_with('=');
  const std::vector<std::string> names = split(list.substr(exact ? 1 : 0), ',');
  return std::ranges::any_of(names, [&](const std::string& name) { return is_here(snapshot, name, exact); });
}

// Expands variables of the user's environment in the profile's values. A value with a part missing would name
// another place than the one that was meant.
void expand_values(SitePlan& plan, const facts::Environment& environment) {
  std::map<std::string, std::string>& values = plan.profile.environment;
  for (auto entry = values.begin(); entry != values.end();) {
    auto& [name, value] = *entry;
    ExpandedValue expanded = expand_value(value, environment);
    if (expanded.missing.empty() || environment.contains(name)) {
      value = std::move(expanded.text);
      ++entry;
      continue;
    }
    plan.notices.push_back(
        {fmt::format("the site {} ({}) gives {} the value {}, but {} is not set: {} is left out",
                     plan.profile.name, plan.profile.source, name, value, expanded.missing, name),
         fmt::format("export {}, or set {} yourself", expanded.missing, name)});
    entry = values.erase(entry);
  }
}

SitePlan on_this_host(SiteProfile profile, std::string origin, const facts::Snapshot& snapshot) {
  SitePlan plan{std::move(profile), std::move(origin), {}, {}};
  expand_values(plan, snapshot.environment);
  const auto& gloo = plan.profile.gloo_interfaces;
  const auto found =
      std::ranges::find_if(gloo, [&](const std::string& name) { return is_here(snapshot, name, true); });
  if (found != gloo.end()) plan.interfaces["GLOO_SOCKET_IFNAME"] = *found;
  const std::string& nccl = plan.profile.nccl_interfaces;
  if (!nccl.empty() && nccl_finds(snapshot, nccl)) plan.interfaces["NCCL_SOCKET_IFNAME"] = nccl;
  return plan;
}

std::vector<SiteProfile> profiles_of_files(const facts::Snapshot& snapshot) {
  std::vector<SiteProfile> profiles;
  for (const std::string& folder : facts::site_folders(snapshot.environment)) {
    for (const auto& [path, text] : snapshot.files) {
      const bool inside = path.starts_with(folder + "/") && path.find('/', folder.size() + 1) == path.npos;
      if (inside) profiles.push_back(parse_site_profile(text, path));
    }
  }
  return profiles;
}

SiteProfile parse_builtin(const char* text) { return parse_site_profile(text, "built in"); }

// Reports whether a built-in profile may hold. Reading all of them takes longer than starting a worker, so
// only those are read that may: each of their conditions asks for a variable, which their text names then.
bool may_hold(std::string_view text, const facts::Environment& environment) {
  constexpr std::string_view k_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  if (text.find("\"cluster\"") != text.npos && environment.contains(k_cluster_variable)) return true;
  for (std::size_t quote = text.find('"'); quote != text.npos;) {
    const std::size_t next = text.find('"', quote + 1);
    const std::string_view part = text.substr(quote + 1, next - quote - 1);
    if (part.find_first_not_of(k_letters) == part.npos && environment.contains(std::string(part)))
      return true;
    quote = next;
  }
  return false;
}

// Returns the first of them whose condition holds.
std::optional<SitePlan> choose_by_conditions(std::vector<SiteProfile> profiles,
                                             const facts::Snapshot& snapshot) {
  for (SiteProfile& profile : profiles) {
    for (const SiteCondition& condition : profile.match) {
      if (const auto told = holds(condition, snapshot))
        return on_this_host(std::move(profile), *told, snapshot);
    }
  }
  return std::nullopt;
}

SitePlan choose_named(const facts::Snapshot& snapshot, const std::string& wanted) {
  std::vector<std::string> names;
  for (SiteProfile& profile : list_site_profiles(snapshot)) {
    if (profile.name == wanted) return on_this_host(std::move(profile), "--site", snapshot);
    names.push_back(profile.name);
  }
  const auto close = closest_match(wanted, names);
  throw UsageError(fmt::format("unknown --site '{}'", printable(wanted)),
                   close ? fmt::format("did you mean {}?", *close)
                         : fmt::format("known sites: {}; a file is given as a path, as in ./{}.json",
                                       join(names, ", "), printable(wanted)));
}

}  // namespace

const std::vector<SiteProfile>& builtin_site_profiles() {
  static const std::vector<SiteProfile> k_profiles = [] {
    std::vector<SiteProfile> profiles;
    for (const char* text : builtin_site_texts()) profiles.push_back(parse_builtin(text));
    return profiles;
  }();
  return k_profiles;
}

std::vector<SiteProfile> list_site_profiles(const facts::Snapshot& snapshot) {
  std::vector<SiteProfile> profiles = profiles_of_files(snapshot);
  const auto& builtin = builtin_site_profiles();
  profiles.insert(profiles.end(), builtin.begin(), builtin.end());
  return profiles;
}

std::vector<std::string> site_variables(const std::vector<SiteProfile>& profiles) {
  std::vector<std::string> names;
  for (const SiteProfile& profile : profiles) {
    for (const SiteCondition& condition : profile.match) {
      for (const auto& [name, pattern] : condition.variables) names.push_back(name);
    }
  }
  return names;
}

bool names_site_file(const std::string& wanted) {
  return wanted.find('/') != std::string::npos || wanted.ends_with(".json");
}

SitePlan choose_site(const facts::Snapshot& snapshot, const std::string& wanted) {
  if (wanted == "none") return {};
  if (names_site_file(wanted)) {
    const auto file = snapshot.files.find(wanted);
    const std::string text = file == snapshot.files.end() ? "" : file->second;
    return on_this_host(parse_site_profile(text, wanted), "--site", snapshot);
  }
  if (!wanted.empty()) return choose_named(snapshot, wanted);
  if (auto plan = choose_by_conditions(profiles_of_files(snapshot), snapshot)) return *std::move(plan);
  for (const char* text : builtin_site_texts()) {
    if (!may_hold(text, snapshot.environment)) continue;
    if (auto plan = choose_by_conditions({parse_builtin(text)}, snapshot)) return *std::move(plan);
  }
  return {};
}

std::vector<facts::InterfaceAddress> prefer_site_interfaces(std::vector<facts::InterfaceAddress> addresses,
                                                            const SitePlan& site) {
  const auto& names = site.profile.gloo_interfaces;
  std::ranges::stable_sort(addresses, [&](const auto& a, const auto& b) {
    return std::ranges::find(names, a.interface) < std::ranges::find(names, b.interface);
  });
  return addresses;
}

}  // namespace ddprun::site
