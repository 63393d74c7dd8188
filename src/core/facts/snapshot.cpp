#include "facts/snapshot.hpp"

#include <fmt/format.h>

#include "facts/json_reader.hpp"
#include "facts/proc_text.hpp"
#include "facts/topology.hpp"

namespace ddprun::facts {

namespace {

OrderedJson render_texts(const std::map<std::string, std::string>& texts) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, text] : texts) object[escape_bytes(name)] = escape_bytes(text);
  return object;
}

OrderedJson render_list(const std::vector<std::string>& texts) {
  OrderedJson array = OrderedJson::array();
  for (const std::string& text : texts) array.push_back(escape_bytes(text));
  return array;
}

OrderedJson render_host(const HostFacts& host) {
  OrderedJson object;
  object["name"] = escape_bytes(host.name);
  object["uid"] = host.uid;
  object["pid"] = host.pid;
  object["addresses"] = OrderedJson::array();
  for (const InterfaceAddress& address : host.addresses) {
    OrderedJson entry;
    entry["interface"] = escape_bytes(address.interface);
    entry["address"] = escape_bytes(address.address);
    entry["prefix_length"] = address.prefix_length;
    entry["loopback"] = address.loopback;
    object["addresses"].push_back(std::move(entry));
  }
  object["allowed_cpus"] = render_cpu_list(host.allowed_cpus);
  object["allowed_cores"] = host.allowed_cores;
  object["online_cpus"] = host.online_cpus;
  if (host.cpu_quota) object["cpu_quota"] = *host.cpu_quota;
  object["gpus"] = OrderedJson::array();
  for (const Gpu& gpu : host.gpus) {
    OrderedJson entry;
    entry["vendor"] = escape_bytes(gpu.vendor);
    entry["pci_address"] = escape_bytes(gpu.pci_address);
    if (!gpu.uuid.empty()) entry["uuid"] = escape_bytes(gpu.uuid);
    if (!gpu.local_cpus.empty()) entry["local_cpus"] = render_cpu_list(gpu.local_cpus);
    if (!gpu.mig.empty()) entry["mig"] = render_list(gpu.mig);
    if (!gpu.model.empty()) entry["model"] = escape_bytes(gpu.model);
    object["gpus"].push_back(std::move(entry));
  }
  if (!host.nvlink_domain.empty()) object["nvlink_domain"] = escape_bytes(host.nvlink_domain);
  if (!host.allowed_memory_nodes.empty())
    object["allowed_memory_nodes"] = render_cpu_list(host.allowed_memory_nodes);
  if (host.topology) object["topology"] = render_topology_object(*host.topology);
  if (!host.warnings.empty()) object["warnings"] = render_list(host.warnings);
  object["ephemeral_ports"] = fmt::format("{}-{}", host.ephemeral_ports.first, host.ephemeral_ports.second);
  object["munge"] = host.munge;
  object["cgroup"] = escape_bytes(host.cgroup);
  object["ancestors"] = OrderedJson::array();
  for (const Ancestor& ancestor : host.ancestors) {
    OrderedJson entry;
    entry["pid"] = ancestor.pid;
    entry["title"] = escape_bytes(ancestor.title);
    object["ancestors"].push_back(std::move(entry));
  }
  if (host.step) {
    object["step"] = {{"no_kill", host.step->no_kill},
                      {"kill_on_bad_exit", host.step->kill_on_bad_exit},
                      {"wait", host.step->wait}};
  }
  object["stdin_is_terminal"] = host.stdin_is_terminal;
  object["stdout_is_terminal"] = host.stdout_is_terminal;
  object["stderr_is_terminal"] = host.stderr_is_terminal;
  return object;
}

}  // namespace

std::string find_pbs_node_file(const Environment& environment) {
  const auto told = environment.find("PBS_NODEFILE");
  if (told != environment.end() && !told->second.empty()) return told->second;
  const auto job = environment.find("PBS_JOBID");
  const bool plain =
      job != environment.end() && !job->second.empty() && job->second.find('/') == std::string::npos;
  if (!plain) return {};
  const auto home = environment.find("PBS_HOME");
  const bool elsewhere = home != environment.end() && !home->second.empty();
  return (elsewhere ? home->second : "/var/spool/pbs") + "/aux/" + job->second;
}

std::optional<std::string> find_variable(const Snapshot& snapshot, const std::string& name) {
  const auto found = snapshot.environment.find(name);
  if (found == snapshot.environment.end()) return std::nullopt;
  return found->second;
}

std::string render_snapshot(const Snapshot& snapshot) {
  OrderedJson object;
  object["format"] = Snapshot::k_format;
  if (!snapshot.removed_secrets.empty()) object["removed_secrets"] = render_list(snapshot.removed_secrets);
  object["arguments"] = render_list(snapshot.arguments);
  object["working_directory"] = escape_bytes(snapshot.working_directory);
  object["environment"] = render_texts(snapshot.environment);
  object["files"] = render_texts(snapshot.files);
  object["programs"] = OrderedJson::object();
  for (const auto& [word, facts] : snapshot.programs) {
    OrderedJson entry;
    entry["kind"] = to_string(facts.kind);
    entry["path"] = escape_bytes(facts.path);
    if (!facts.version.empty()) entry["version"] = escape_bytes(facts.version);
    object["programs"][escape_bytes(word)] = std::move(entry);
  }
  if (!snapshot.names.empty()) object["names"] = render_texts(snapshot.names);
  object["host"] = render_host(snapshot.host);
  object["unix_time"] = snapshot.unix_time;
  return object.dump(2) + "\n";
}

// parse_snapshot: JSON to a snapshot, strictly.

namespace {

constexpr const char* k_capture_again =
    "write it again with ddprun --capture FILE on the machine in question";

std::optional<std::pair<int, int>> parse_ports(const std::string& text) {
  const std::vector<std::string> parts = split(text, '-');
  return parts.size() == 2 ? parse_port_range(parts[0] + " " + parts[1]) : std::nullopt;
}

StepOptions read_step(JsonReader step) {
  StepOptions options;
  step.read("no_kill", options.no_kill);
  step.read("kill_on_bad_exit", options.kill_on_bad_exit);
  step.read_number("wait", options.wait);
  step.finish();
  return options;
}

HostFacts read_host(JsonReader host) {
  HostFacts facts;
  host.read("name", facts.name);
  host.read_number("uid", facts.uid);
  host.read_number("pid", facts.pid);
  host.each("addresses", [&](const Json& value, const std::string& where) {
    JsonReader entry = host.element(value, where);
    InterfaceAddress address;
    entry.read("interface", address.interface);
    entry.read("address", address.address);
    entry.read_number("prefix_length", address.prefix_length, 0, 128);
    entry.read("loopback", address.loopback);
    entry.finish();
    facts.addresses.push_back(std::move(address));
  });
  host.read_as("allowed_cpus", facts.allowed_cpus, parse_cpu_list, k_cpu_list);
  host.read_number("allowed_cores", facts.allowed_cores);
  host.read_number("online_cpus", facts.online_cpus);
  host.read("cpu_quota", facts.cpu_quota);
  host.each("gpus", [&](const Json& value, const std::string& where) {
    JsonReader entry = host.element(value, where);
    Gpu gpu;
    entry.read("vendor", gpu.vendor);
    entry.read("pci_address", gpu.pci_address);
    entry.read("uuid", gpu.uuid);
    entry.read_as("local_cpus", gpu.local_cpus, parse_cpu_list, k_cpu_list);
    entry.read("mig", gpu.mig);
    entry.read("model", gpu.model);
    entry.finish();
    facts.gpus.push_back(std::move(gpu));
  });
  host.read("nvlink_domain", facts.nvlink_domain);
  host.read_as("allowed_memory_nodes", facts.allowed_memory_nodes, parse_cpu_list,
               "a list of NUMA nodes such as 0-3,8");
  if (host.has("topology")) facts.topology = read_topology(host.child("topology"));
  host.read("warnings", facts.warnings);
  host.read_as("ephemeral_ports", facts.ephemeral_ports, parse_ports, "a range of ports such as 32768-60999");
  host.read("munge", facts.munge);
  host.read("cgroup", facts.cgroup);
  host.each("ancestors", [&](const Json& value, const std::string& where) {
    JsonReader entry = host.element(value, where);
    Ancestor ancestor;
    entry.read_number("pid", ancestor.pid);
    entry.read("title", ancestor.title);
    entry.finish();
    facts.ancestors.push_back(std::move(ancestor));
  });
  if (host.has("step")) facts.step = read_step(host.child("step"));
  host.read("stdin_is_terminal", facts.stdin_is_terminal);
  host.read("stdout_is_terminal", facts.stdout_is_terminal);
  host.read("stderr_is_terminal", facts.stderr_is_terminal);
  host.finish();
  return facts;
}

}  // namespace

Snapshot parse_snapshot(const std::string& json, const std::string& source) {
  const JsonSource named{fmt::format("the snapshot {}", printable(source)), k_capture_again};
  if (json.size() > k_snapshot_limit) {
    named.refuse(fmt::format("it is larger than {} MiB", k_snapshot_limit >> 20));
  }
  const Json file = parse_strictly(json, named);
  JsonReader reader(file, named, "");
  if (!reader.has("format")) reader.fail("format", "is missing");
  int format = 0;
  reader.read_number("format", format);
  if (format != Snapshot::k_format) {
    reader.fail("format", fmt::format("is {}, but this ddprun reads {}", format, Snapshot::k_format));
  }
  Snapshot snapshot;
  reader.read("removed_secrets", snapshot.removed_secrets);
  reader.read("arguments", snapshot.arguments);
  reader.read("working_directory", snapshot.working_directory);
  reader.read("environment", snapshot.environment);
  reader.read("files", snapshot.files);
  reader.each_member("programs", [&](const std::string& word, const Json& value, const std::string& where) {
    JsonReader entry = reader.element(value, where);
    ProgramFacts facts;
    entry.read_as("kind", facts.kind, parse_program_kind,
                  "missing, directory, not executable, python file or executable");
    entry.read("path", facts.path);
    entry.read("version", facts.version);
    entry.finish();
    if (!snapshot.programs.emplace(word, std::move(facts)).second) reader.fail(where, "appears twice");
  });
  reader.read("names", snapshot.names);
  snapshot.host = read_host(reader.child("host"));
  reader.read_number("unix_time", snapshot.unix_time);
  reader.finish();
  return snapshot;
}

}  // namespace ddprun::facts
