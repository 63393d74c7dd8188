// Every folder of tests/data/allocations is a case: recorded or constructed variables, facts about the host
// and options in; the allocation, or the error as the user sees it, out.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "allocation/detection/detect.hpp"
#include "allocation/hostlist.hpp"
#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;
using ddprun::test::read_json;
using ddprun::test::read_text;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

template <class T>
void put(json& out, const char* name, const T& value, const std::string& origin) {
  if (!origin.empty()) out[name] = fmt::format("{} <- {}", value, origin);
}

std::string render_hosts(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", host.name, host.tasks);
  return text;
}

json render(const Allocation& allocation) {
  json out;
  put(out, "scheduler", to_string(allocation.scheduler.value), allocation.scheduler.origin);
  put(out, "style", to_string(allocation.style.value), allocation.style.origin);
  if (allocation.style_assumed) out["style_assumed"] = true;
  put(out, "place", allocation.place.value, allocation.place.origin);
  if (const auto& workers = allocation.place_workers)
    put(out, "place_workers", workers->value, workers->origin);
  put(out, "launcher", allocation.launcher.value, allocation.launcher.origin);
  put(out, "launch_id", allocation.launch_id.value, allocation.launch_id.origin);
  put(out, "job_id", allocation.job_id.value, allocation.job_id.origin);
  put(out, "step_id", allocation.step_id.value, allocation.step_id.origin);
  put(out, "instance", allocation.instance.value, allocation.instance.origin);
  put(out, "restart_count", allocation.restart_count.value, allocation.restart_count.origin);
  put(out, "hosts", render_hosts(allocation.hosts.value), allocation.hosts.origin);
  put(out, "components", allocation.components.value, allocation.components.origin);
  put(out, "job_nodes", allocation.job_nodes.value, allocation.job_nodes.origin);
  if (allocation.node_rank)
    put(out, "node_rank", allocation.node_rank->value.value, allocation.node_rank->origin);
  put(out, "node_index", allocation.node_index.value.value_or(NodeIndex{-1}).value,
      allocation.node_index.origin);
  put(out, "task_count", allocation.task_count.value, allocation.task_count.origin);
  put(out, "task_rank", allocation.task_rank.value, allocation.task_rank.origin);
  put(out, "task_local", allocation.task_local.value.value, allocation.task_local.origin);
  put(out, "tasks_here", allocation.tasks_here.value, allocation.tasks_here.origin);
  if (const auto& asked = allocation.asked_tasks)
    put(out, "asked_tasks", render_hosts(asked->value), asked->origin);
  put(out, "cpus_on_node", allocation.cpus_on_node.value, allocation.cpus_on_node.origin);
  if (allocation.end_time) put(out, "end_time", allocation.end_time->value, allocation.end_time->origin);
  if (const auto& ports = allocation.reserved_ports)
    put(out, "reserved_ports", fmt::format("{}", fmt::join(ports->value, " ")), ports->origin);
  if (const auto& address = allocation.first_address)
    put(out, "first_address", address->value, address->origin);
  if (const auto& port = allocation.first_port) put(out, "first_port", port->value, port->origin);
  for (const auto& hint : allocation.first_hints)
    out["hints"].push_back(fmt::format("{} <- {}", hint.value, hint.origin));
  for (const JobSecret& secret : allocation.secrets) out["secrets"].push_back(secret.origin);
  if (allocation.key_value_space != KeyValueSpace::none)
    out["key_value_space"] = allocation.key_value_space == KeyValueSpace::pmi1 ? "PMI" : "PMIx";
  if (!allocation.first_known) out["first_known"] = false;
  for (const Notice& notice : allocation.notices)
    out["notices"].push_back({{"what", notice.what}, {"hint", notice.hint}});
  out["key"] = launch_key(allocation);
  return out;
}

// DDPRUN_ACCEPT=1 writes the present answer as the expected one and fails, so that it is looked at.
void check_expected(const fs::path& folder, const json& answer) {
  const fs::path path = folder / "expected.json";
  const std::string text = answer.dump(2);
  if (std::getenv("DDPRUN_ACCEPT") == nullptr) {
    CHECK(text == read_json(path).dump(2));
  } else if (text != read_json(path).dump(2)) {
    std::ofstream(path) << text << '\n';
    FAIL_CHECK("wrote " << path.string() << "; look at the difference");
  }
}

json detect(const fs::path& folder) {
  try {
    return render(detect_allocation(
        test::read_case_snapshot(folder),
        test::read_place_options(read_json(folder / "facts.json").value("flags", json::object()))));
  } catch (const Error& error) {
    return {{"error", error.what()}, {"hint", error.hint()}, {"exit_code", error.exit_code()}};
  }
}

std::set<fs::path> list_cases() {
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(test::data_folder("allocations")))
    folders.insert(entry.path());
  return folders;
}

}  // namespace

TEST_CASE("allocations are found as the cases say") {
  const auto cases = list_cases();
  CHECK(cases.size() >= 50);
  for (const fs::path& folder : cases) {
    // No section each: with every one Catch begins anew at the first, which is most of the time then.
    CAPTURE(folder.filename().string());
    check_expected(folder, detect(folder));
    const std::string readme = read_text(folder / "README");
    CHECK((readme.rfind("recorded under ", 0) == 0 || readme.rfind("constructed ", 0) == 0));
  }
}
