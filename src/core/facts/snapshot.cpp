#include "facts/snapshot.hpp"

#include <fmt/format.h>

#include "facts/byte_text.hpp"
#include "facts/proc_text.hpp"
#include "facts/topology_json.hpp"

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

}  // namespace ddprun::facts
