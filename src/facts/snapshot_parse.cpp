// parse_snapshot: JSON to a snapshot, strictly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/facts/byte_text.hpp"
#include "ddprun/facts/proc_text.hpp"
#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

namespace {

using Json = nlohmann::json;

constexpr const char* k_hint = "write it again with ddprun --capture FILE on the machine in question";

// One object of the file while it is read: every key must be asked for, and what was not is unknown.
class Reader {
 public:
  Reader(const Json& object, std::string source, std::string path)
      : object_(object), source_(std::move(source)), path_(std::move(path)) {
    if (!object_.is_object()) fail(path_.empty() ? "the whole file" : path_, "must be an object");
  }

  void read(const std::string& key, std::string& target) {
    if (const Json* value = find(key)) target = text(*value, name(key));
  }

  void read(const std::string& key, bool& target) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) fail(name(key), "must be true or false");
    target = value->get<bool>();
  }

  template <class Number>
  void read_number(const std::string& key, Number& target, Number low = 0,
                   Number high = std::numeric_limits<Number>::max()) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_integer()) fail(name(key), "must be a whole number");
    const bool too_large =
        value->is_number_unsigned() &&
        value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const std::int64_t number = too_large ? -1 : value->get<std::int64_t>();
    if (too_large || number < low || number > high) {
      fail(name(key), fmt::format("must be between {} and {}", low, high));
    }
    target = static_cast<Number>(number);
  }

  void read(const std::string& key, std::optional<double>& target) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
      fail(name(key), "must be a number above 0");
    }
    target = value->get<double>();
  }

  void read(const std::string& key, std::vector<std::string>& target) {
    each(key, [&](const Json& value, const std::string& where) { target.push_back(text(value, where)); });
  }

  void read(const std::string& key, std::map<std::string, std::string>& target) {
    each_member(key, [&](const std::string& member, const Json& value, const std::string& where) {
      if (!target.emplace(member, text(value, where)).second) fail(where, "appears twice");
    });
  }

  // Text that `parse` turns into the value, or else is "not <description>".
  template <class Value, class Parse>
  void read_as(const std::string& key, Value& target, Parse parse, const char* description) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    auto parsed = parse(text(*value, name(key)));
    if (!parsed) fail(name(key), fmt::format("must be {}", description));
    target = std::move(*parsed);
  }

  // Calls use(value, "host.gpus[0]") for each element of an array.
  template <class Use>
  void each(const std::string& key, Use use) {
    const Json* const array = find(key);
    if (array == nullptr) return;
    if (!array->is_array()) fail(name(key), "must be an array");
    for (std::size_t i = 0; i < array->size(); ++i) use((*array)[i], fmt::format("{}[{}]", name(key), i));
  }

  // Calls use(member, value, "environment.PATH") for each member of an object.
  template <class Use>
  void each_member(const std::string& key, Use use) {
    const Json* const object = find(key);
    if (object == nullptr) return;
    if (!object->is_object()) fail(name(key), "must be an object");
    for (const auto& [member, value] : object->items()) {
      use(unescape_bytes(member), value, name(key) + "." + member);
    }
  }

  // The object at `key`, or an empty one.
  Reader child(const std::string& key) {
    static const Json k_empty = Json::object();
    const Json* const value = find(key);
    return Reader(value == nullptr ? k_empty : *value, source_, name(key));
  }
  Reader element(const Json& value, const std::string& where) const { return Reader(value, source_, where); }

  bool has(const std::string& key) const { return object_.contains(key); }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.contains(key)) continue;
      const auto close = closest_match(key, {known_.begin(), known_.end()});
      fail(name(key), close ? fmt::format("is not known; did you mean {}?", *close) : "is not known");
    }
  }

  [[noreturn]] void fail(const std::string& where, const std::string& why) const {
    throw Error(fmt::format("cannot use the snapshot {}: {} {}", printable(source_), printable(where), why),
                k_hint);
  }

 private:
  const Json* find(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  std::string text(const Json& value, const std::string& where) const {
    if (!value.is_string()) fail(where, "must be text");
    return unescape_bytes(value.get_ref<const std::string&>());
  }

  const Json& object_;
  std::string source_;
  std::string path_;
  std::set<std::string> known_;
};

std::optional<std::pair<int, int>> parse_ports(const std::string& text) {
  const std::vector<std::string> parts = split(text, '-');
  return parts.size() == 2 ? parse_port_range(parts[0] + " " + parts[1]) : std::nullopt;
}

HostFacts read_host(Reader host) {
  HostFacts facts;
  host.read("name", facts.name);
  host.read_number("uid", facts.uid);
  host.read_number("pid", facts.pid);
  host.each("addresses", [&](const Json& value, const std::string& where) {
    Reader entry = host.element(value, where);
    InterfaceAddress address;
    entry.read("interface", address.interface);
    entry.read("address", address.address);
    entry.read_number("prefix_length", address.prefix_length, 0, 128);
    entry.read("loopback", address.loopback);
    entry.finish();
    facts.addresses.push_back(std::move(address));
  });
  host.read_as("allowed_cpus", facts.allowed_cpus, parse_cpu_list, "a list of CPUs such as 0-3,8");
  host.read_number("allowed_cores", facts.allowed_cores);
  host.read_number("online_cpus", facts.online_cpus);
  host.read("cpu_quota", facts.cpu_quota);
  host.each("gpus", [&](const Json& value, const std::string& where) {
    Reader entry = host.element(value, where);
    Gpu gpu;
    entry.read("vendor", gpu.vendor);
    entry.read("pci_address", gpu.pci_address);
    entry.finish();
    facts.gpus.push_back(std::move(gpu));
  });
  host.read_as("ephemeral_ports", facts.ephemeral_ports, parse_ports, "a range of ports such as 32768-60999");
  host.read("munge", facts.munge);
  host.read("cgroup", facts.cgroup);
  host.each("ancestors", [&](const Json& value, const std::string& where) {
    Reader entry = host.element(value, where);
    Ancestor ancestor;
    entry.read_number("pid", ancestor.pid);
    entry.read("title", ancestor.title);
    entry.finish();
    facts.ancestors.push_back(std::move(ancestor));
  });
  host.read("stdin_is_terminal", facts.stdin_is_terminal);
  host.read("stderr_is_terminal", facts.stderr_is_terminal);
  host.finish();
  return facts;
}

// Parses with two rules the library does not have: no repeated keys, and no deep nesting.
Json parse_strictly(const std::string& json, const std::string& source) {
  static constexpr int k_deepest = 8;
  std::vector<std::set<std::string>> keys;
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("cannot use the snapshot {}: {}", printable(source), why), k_hint);
  };
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > k_deepest) refuse("it is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) refuse(printable(key) + " appears twice");
    }
    return true;
  };
  try {
    return Json::parse(json, check);
  } catch (const Json::parse_error& error) {
    const auto end = json.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, json.size()));
    refuse(fmt::format("line {} is not JSON", 1 + std::count(json.begin(), end, '\n')));
  } catch (const Json::exception&) {
    refuse("it holds a number that is too large");
  }
  return {};
}

}  // namespace

Snapshot parse_snapshot(const std::string& json, const std::string& source) {
  if (json.size() > k_snapshot_limit) {
    throw Error(fmt::format("cannot use the snapshot {}: it is larger than {} MiB", printable(source),
                            k_snapshot_limit >> 20),
                k_hint);
  }
  const Json file = parse_strictly(json, source);
  Reader reader(file, source, "");
  if (!reader.has("format")) reader.fail("format", "is missing");
  int format = 0;
  reader.read_number("format", format);
  if (format != Snapshot::k_format) {
    reader.fail("format", fmt::format("is {}, but this ddprun reads {}", format, Snapshot::k_format));
  }
  Snapshot snapshot;
  reader.read("arguments", snapshot.arguments);
  reader.read("working_directory", snapshot.working_directory);
  reader.read("environment", snapshot.environment);
  reader.read("files", snapshot.files);
  reader.each_member("programs", [&](const std::string& word, const Json& value, const std::string& where) {
    Reader entry = reader.element(value, where);
    ProgramFacts facts;
    entry.read_as("kind", facts.kind, parse_program_kind,
                  "missing, directory, not executable, python file or executable");
    entry.read("path", facts.path);
    entry.read("version", facts.version);
    entry.finish();
    if (!snapshot.programs.emplace(word, std::move(facts)).second) reader.fail(where, "appears twice");
  });
  snapshot.host = read_host(reader.child("host"));
  reader.read_number("unix_time", snapshot.unix_time);
  reader.finish();
  return snapshot;
}

}  // namespace ddprun
