// parse_site_profile: JSON to a profile, strictly: what is misspelt would otherwise be missing without a
// word.
#include <fmt/format.h>

#include <algorithm>

#include "allocation/network_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"
#include "facts/secrets.hpp"
#include "facts/site_folders.hpp"
#include "site/site.hpp"

namespace ddprun::site {

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
