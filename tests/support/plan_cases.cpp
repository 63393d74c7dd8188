#include "plan_cases.hpp"

#include <algorithm>

#include "allocation_cases.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::test {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void read_host(const json& host, facts::Snapshot& snapshot) {
  facts::HostFacts& facts = snapshot.host;
  facts.name = host.value("name", facts.name);
  facts.allowed_cpus = facts::parse_cpu_list(host.value("cpus", "0-7")).value();
  facts.allowed_cores = host.value("cores", static_cast<int>(facts.allowed_cpus.size()));
  facts.online_cpus = host.value("online", static_cast<int>(facts.allowed_cpus.size()));
  facts.nvlink_domain = host.value("nvlink_domain", facts.nvlink_domain);
  if (host.contains("quota")) facts.cpu_quota = host.at("quota").get<double>();
  for (int i = 0; i < host.value("gpus", 0); ++i) facts.gpus.push_back({host.value("vendor", "nvidia"), ""});
  const json interfaces = host.value("interfaces", json::object());
  for (const auto& [interface, address] : interfaces.items())
    facts.addresses.push_back({interface, address.get<std::string>(), 24, interface == "lo"});
  snapshot.unix_time = host.value("unix_time", snapshot.unix_time);
}

void read_programs(const json& programs, facts::Snapshot& snapshot) {
  for (const auto& [name, value] : programs.items()) {
    const bool alone = value.is_string();
    snapshot.programs[name] = {facts::ProgramKind::executable,
                               alone ? value.get<std::string>() : value.at("path").get<std::string>(),
                               alone ? std::string() : value.at("version").get<std::string>()};
  }
}

void read_time_limit(const json& flags, options::TimeLimitOptions& options) {
  for (const auto& [flag, value] : flags.items()) {
    if (flag == "--signal-before-end")
      options.signal = sourced(options::parse_signal_before_end(value.get<std::string>(), flag), flag);
    if (flag == "--requeue") options.requeue = sourced(value.get<int>(), flag);
    if (flag == "--requeue-on") options.requeue_on = sourced(value.get<std::vector<int>>(), flag);
    if (flag == "--no-requeue-on") options.no_requeue_on = sourced(value.get<std::vector<int>>(), flag);
    if (flag == "--min-attempt-time")
      options.min_attempt = sourced(Milliseconds{value.get<int>() * 1000}, flag);
  }
}

options::Options read_options(const json& flags) {
  options::Options options;
  options.place = read_place_options(flags);
  read_time_limit(flags, options.time_limit);
  for (const auto& [flag, value] : flags.items()) {
    if (flag == "--nproc-per-node") {
      options.workers =
          options::parse_workers_per_node(value.is_string() ? value.get<std::string>() : value.dump(), flag);
    }
    if (flag == "--check-command")
      options.check.command = sourced(value.get<std::vector<std::string>>(), flag);
    if (flag == "--on-failure")
      options.check.on_failure = sourced(value.get<std::vector<std::string>>(), flag);
    if (flag == "--launcher-args") options.given["launcher-args"] = sourced(value.get<std::string>(), flag);
    if (flag == "--max-restarts") options.max_restarts = sourced(value.get<int>(), flag);
    if (flag == "--checkpoint-memory") options.checkpoint.memory = sourced(value.get<std::uint64_t>(), flag);
    if (flag == "--checkpoint-flush") options.checkpoint.flush = value.get<std::string>();
    if (flag == "--checkpoint-rate") options.checkpoint.rate = value.get<std::uint64_t>();
    if (flag == "--checkpoint-flush-every") options.checkpoint.flush_every = Milliseconds{value.get<int>()};
    if (flag == "MIN of --nnodes") options.least_nodes = sourced(value.get<int>(), "--nnodes");
    if (flag == "--spares") options.spares = sourced(value.get<int>(), flag);
    if (flag == "--order") options.order = sourced(value.get<std::string>(), flag);
    if (flag == "--role") options.role = sourced(value.get<std::string>(), flag);
    if (flag == "--local-addr") options.local_address = sourced(value.get<std::string>(), flag);
    if (flag == "--virtual-local-rank") options.virtual_local_rank = value.get<bool>();
    if (flag == "--gpus-per-worker") options.gpus_per_worker = sourced(value.get<int>(), flag);
    if (flag == "--workers-per-gpu") {
      options.workers_per_gpu = value.get<int>();
      options.gpus_per_worker = sourced(1, flag);
    }
    if (flag == "--rdzv-conf") options.given["rdzv-conf"] = {value.get<std::string>(), flag};
    if (flag == "--site") options.site = value.get<std::string>();
    if (flag == "--launcher") options.remote_launcher = sourced(value.get<std::string>(), flag);
    if (flag == "--logs") options.output.logs = sourced(value.get<std::string>(), flag);
    if (flag == "--label") options.output.label = sourced(value.get<std::string>(), flag);
    if (flag == "--store" && value == "worker") options.store = options::StoreHost::worker;
  }
  return options;
}

}  // namespace

PlanCase read_plan_case(const fs::path& folder) {
  const json file = read_json(folder / "options.json");
  PlanCase plan_case{folder, {}, {}};
  json flags = json::object();
  if (file.contains("allocation")) {
    const fs::path allocation = data_folder("allocations") / file.at("allocation").get<std::string>();
    plan_case.snapshot = read_case_snapshot(allocation);
    flags = read_json(allocation / "facts.json").value("flags", json::object());
  } else if (fs::exists(folder / "capture.json")) {
    plan_case.snapshot = facts::parse_snapshot(read_json(folder / "capture.json").dump(), "capture.json");
  } else {
    plan_case.snapshot = read_case_snapshot("");
  }
  const json environment = file.value("environment", json::object());
  for (const auto& [name, value] : environment.items())
    plan_case.snapshot.environment[name] = value.get<std::string>();
  const json files = file.value("files", json::object());
  for (const auto& [path, text] : files.items()) plan_case.snapshot.files[path] = text.get<std::string>();
  read_programs(file.value("programs", json::object()), plan_case.snapshot);
  flags.update(file.value("flags", json::object()));
  if (!fs::exists(folder / "capture.json")) read_host(file.value("host", json::object()), plan_case.snapshot);
  plan_case.options = read_options(flags);
  plan_case.options.command = file.value("command", std::vector<std::string>{"train.py"});
  plan_case.snapshot.arguments = plan_case.options.command;
  return plan_case;
}

const std::vector<PlanCase>& plan_cases() {
  static const std::vector<PlanCase> k_cases = [] {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(data_folder("plans"))) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    std::vector<PlanCase> cases;
    for (const fs::path& folder : folders) cases.push_back(read_plan_case(folder));
    return cases;
  }();
  return k_cases;
}

}  // namespace ddprun::test
