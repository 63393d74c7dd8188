#include "allocation_cases.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "allocation/detection/started.hpp"
#include "base/json_text.hpp"
#include "environment_lines.hpp"
#include "test_paths.hpp"

namespace ddprun::test {

using nlohmann::json;
namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

json read_json(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json value = read_json_text(read_text(path));
  if (value.is_discarded()) throw std::runtime_error(path.string() + " is not JSON");
  return value;
}

fs::path data_folder(const std::string& name) { return fs::path(DDPRUN_TEST_DATA) / name; }

facts::Snapshot read_case_snapshot(const fs::path& folder) {
  facts::Snapshot snapshot;
  snapshot.environment = parse_environment_lines(read_text(folder / "environment"));
  const json facts = read_json(folder / "facts.json");
  snapshot.host.name = facts.value("host", "n1");
  snapshot.host.pid = facts.value("pid", 4000);
  snapshot.host.cgroup = facts.value("cgroup", "");
  for (const json& ancestor : facts.value("ancestors", json::array()))
    snapshot.host.ancestors.push_back({ancestor.at("pid"), ancestor.at("title")});
  if (const json step = facts.value("step", json()); !step.is_null())
    snapshot.host.step = facts::StepOptions{step.at("no_kill"), step.at("kill_on_bad_exit"), step.at("wait")};
  snapshot.unix_time = facts.value("unix_time", 0);
  // A file of the case's folder stands for the one that a variable names.
  const json files = facts.value("files", json::object());
  for (const auto& [name, file] : files.items()) {
    snapshot.files[name.starts_with('/') ? name : snapshot.environment.at(name)] =
        read_text(folder / file.get<std::string>());
  }
  return snapshot;
}

allocation::PlaceOptions read_place_options(const json& flags) {
  allocation::PlaceOptions options;
  for (const auto& [flag, value] : flags.items()) {
    if (flag == "--nnodes") options.nodes = sourced(value.get<int>(), flag);
    if (flag == "--node-rank") options.node_rank = sourced(value.get<int>(), flag);
    if (flag == "--nproc-per-node" && value.is_number())
      options.workers_per_node = sourced(value.get<int>(), flag);
    if (flag == "--master-port") options.port = sourced(value.get<int>(), flag);
    if (flag == "--master-addr") options.address = sourced(value.get<std::string>(), flag);
    if (flag == "--rdzv-endpoint")
      options.address = sourced(value.get<std::string>(), flag, Source::endpoint);
    if (flag == "--rdzv-id") options.run_id = sourced(value.get<std::string>(), flag);
    if (flag == "--scheduler") options.scheduler = sourced(value.get<std::string>(), flag);
    if (flag == "--hosts")
      options.hosts = sourced(allocation::parse_hosts(value.get<std::string>(), flag), flag);
    if (flag == "--standalone") options.standalone = value.get<bool>();
  }
  return options;
}

}  // namespace ddprun::test
