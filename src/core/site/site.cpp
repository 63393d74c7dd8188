#include "site/site.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "allocation/network_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"
#include "facts/secrets.hpp"
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

// parse_site_profile: JSON to a profile, strictly: what is misspelt would otherwise be missing without a
// word.

namespace {

using Json = facts::LinedJson::Json;

constexpr int k_format = 1;
constexpr std::size_t k_most_elements = 64;
constexpr std::size_t k_longest_text = 1000;
constexpr const char* k_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr const char* k_hint = "man ddprun-formats describes site profiles; --site none ignores them";

// Variables that ddprun sets itself, so that a profile's value would be lost or do harm.
constexpr const char* k_own_variables[] = {
    "RANK",      "LOCAL_RANK", "WORLD_SIZE",  "LOCAL_WORLD_SIZE", "GROUP_RANK",     "GROUP_WORLD_SIZE",
    "ROLE_NAME", "ROLE_RANK",  "MASTER_ADDR", "MASTER_PORT",      "OMP_NUM_THREADS"};

bool consists_of(const std::string& text, const std::string& characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string::npos;
}

using ProfileSource = facts::LinedJson;

// Reader of one object: every key must be asked for, and others are unknown.
class Reader {
 public:
  Reader(const ProfileSource& source, const Json& object, std::string path)
      : source_(source), object_(object), path_(std::move(path)) {
    if (!object_.is_object()) fail(object_, path_, "must be an object");
  }

  const Json* find(const std::string& key) {
    known_.push_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  std::string text(const std::string& key, const char* what = "text", const std::string& characters = {}) {
    const Json* const value = find(key);
    return value == nullptr ? "" : text_of(*value, name(key), what, characters);
  }

  std::vector<std::string> texts(const std::string& key, const char* what = "text",
                                 const std::string& characters = {}) {
    std::vector<std::string> list;
    for (const Json& element : elements(key)) {
      list.push_back(text_of(element, fmt::format("{}[{}]", name(key), list.size()), what, characters));
    }
    return list;
  }

  const Json& elements(const std::string& key) {
    static const Json k_none = Json::array();
    const Json* const value = find(key);
    if (value == nullptr) return k_none;
    if (!value->is_array()) fail(*value, name(key), "must be a list");
    if (value->size() > k_most_elements) {
      fail(*value, name(key), fmt::format("has more than {} elements", k_most_elements));
    }
    return *value;
  }

  Reader child(const std::string& key) {
    static const Json k_empty = Json::object();
    const Json* const value = find(key);
    return {source_, value == nullptr ? k_empty : *value, name(key)};
  }

  // Names of variables and their texts.
  std::map<std::string, std::string> variables(const std::string& key) {
    std::map<std::string, std::string> found;
    Reader member = child(key);
    if (member.object_.size() > k_most_elements) {
      fail(member.object_, name(key), fmt::format("has more than {} variables", k_most_elements));
    }
    for (const auto& [variable, value] : member.object_.items()) {
      const std::string path = member.name(variable);
      if (!consists_of(variable, std::string(k_letters) + "0123456789_") ||
          std::string(k_letters).append("_").find(variable.front()) == std::string::npos) {
        fail(value, path, "is not the name of a variable");
      }
      found[variable] = text_of(value, path, "text", {});
    }
    return found;
  }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(known_, key) != known_.end()) continue;
      const auto close = closest_match(key, known_);
      fail(value, name(key), close ? fmt::format("is not known; did you mean {}?", *close) : "is not known");
    }
  }

  [[noreturn]] void fail(const Json& value, const std::string& path, const std::string& why) const {
    source_.fail(source_.line_of(value), printable(path) + " " + why);
  }
  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  // Reads a text without control characters: a value ends up in variables, names and on the terminal.
  std::string text_of(const Json& value, const std::string& path, const char* what,
                      const std::string& characters) const {
    const std::string must_be = fmt::format("must be {}", what);
    if (!value.is_string()) fail(value, path, must_be);
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > k_longest_text) fail(value, path, fmt::format("is longer than {}", k_longest_text));
    if (printable(text, k_longest_text) != text) fail(value, path, "has characters that cannot be printed");
    if (!characters.empty() && !consists_of(text, characters)) fail(value, path, must_be);
    return text;
  }

  const ProfileSource& source_;
  const Json& object_;
  std::string path_;
  std::vector<std::string> known_;
};

SiteCondition read_condition(Reader condition, const Json& value) {
  SiteCondition result;
  result.cluster = condition.text("cluster");
  result.host = to_lower(condition.text("host"));
  result.variables = condition.variables("variables");
  condition.finish();
  if (result.cluster.empty() && result.host.empty() && result.variables.empty()) {
    condition.fail(value, condition.name("cluster").substr(0, condition.name("").size() - 1),
                   "must name a cluster, a host or variables");
  }
  return result;
}

void read_environment(Reader& reader, SiteProfile& profile) {
  profile.environment = reader.variables("environment");
  for (const auto& [variable, text] : profile.environment) {
    const Json& value = *reader.find("environment")->find(variable);
    const std::string path = "environment." + variable;
    // A capture holds the profiles as they are.
    if (facts::is_secret_variable(variable))
      reader.fail(value, path, "looks like a secret, which does not belong in a profile");
    if (variable == "GLOO_SOCKET_IFNAME" || variable == "NCCL_SOCKET_IFNAME") {
      reader.fail(value, path, "belongs under interfaces");
    }
    if (variable.starts_with("TORCHELASTIC_") ||
        std::find(std::begin(k_own_variables), std::end(k_own_variables), variable) !=
            std::end(k_own_variables)) {
      reader.fail(value, path, "is set by ddprun itself");
    }
  }
}

void read_ports(Reader& reader, SiteProfile& profile) {
  const Json* const value = reader.find("ports");
  const std::string text = reader.text("ports");
  if (value == nullptr) return;
  const std::vector<std::string> ends = split(text, '-');
  const auto range = ends.size() == 2 ? facts::parse_port_range(ends[0] + " " + ends[1]) : std::nullopt;
  if (!range || range->first < 1024 || range->first == range->second) {
    reader.fail(*value, "ports", "must be a range of several ports above 1023, such as 20000-20099");
  }
  profile.ports = range;
}

void check_format(Reader& reader, const Json& whole) {
  const Json* const format = reader.find("format");
  if (format == nullptr) reader.fail(whole, "format", "is missing");
  if (*format != k_format) {
    reader.fail(*format, "format", fmt::format("must be {}, the format that this ddprun reads", k_format));
  }
}

}  // namespace

SiteProfile parse_site_profile(const std::string& json, const std::string& name) {
  const ProfileSource source =
      facts::read_lined_json(json, "the site profile " + printable(name), k_hint, facts::k_site_file_limit);
  const std::string word = std::string(k_letters) + "0123456789-_.";
  Reader reader(source, source.json, "");
  check_format(reader, source.json);
  SiteProfile profile;
  profile.source = name;
  profile.name = reader.text("name", "a word of letters, digits and -_.", word);
  if (profile.name.empty()) reader.fail(source.json, "name", "is missing");
  if (profile.name == "none") reader.fail(*reader.find("name"), "name", "must not be none");
  profile.description = reader.text("description");
  for (const Json& condition : reader.elements("match")) {
    const std::string path = fmt::format("match[{}]", profile.match.size());
    profile.match.push_back(read_condition({source, condition, path}, condition));
  }
  Reader address = reader.child("address");
  profile.suffixes = address.texts("suffixes", "a part of a host name", word);
  profile.domains = address.texts("domains", "a domain", word);
  address.finish();
  Reader interfaces = reader.child("interfaces");
  profile.gloo_interfaces = interfaces.texts("gloo", "an interface", word + ":@");
  profile.nccl_interfaces = interfaces.text("nccl", "a list as in NCCL_SOCKET_IFNAME", word + ":@,=^");
  interfaces.finish();
  read_environment(reader, profile);
  read_ports(reader, profile);
  if (const Json* const options = reader.find("options")) {
    if (!options->is_object()) reader.fail(*options, "options", "must be an object");
    profile.options = facts::read_option_texts(source, *options, name);
  }
  profile.switches = reader.texts("switches", "hosts and their switches, as in \"n[1-4] s0/leaf1\"");
  if (!profile.switches.empty()) allocation::parse_host_order(join(profile.switches, "\n"), name);
  profile.notes = reader.texts("notes");
  reader.finish();
  return profile;
}

}  // namespace ddprun::site
