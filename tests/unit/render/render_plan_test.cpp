#include "render/render_plan.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "manual_keys.hpp"
#include "node_scenes.hpp"
#include "plan_cases.hpp"
#include "plan_node.hpp"
#include "render/node_picture.hpp"

using namespace ddprun;
using namespace ddprun::render;
using nlohmann::json;

namespace {

using Keys = std::set<std::string>;

bool has_origin(const json& value) {
  return value.is_object() && value.size() == 2 && value.contains("value") && value.contains("origin");
}

// "allocation.hosts *", "allocation.hosts[].name": the spelling of the manual. What is keyed by the names of
// variables is one key. An empty list tells nothing of its elements.
void collect(const json& value, const std::string& path, Keys& keys) {
  if (has_origin(value)) {
    keys.insert(path + " *");
    if (value["value"].is_array()) {
      for (const json& element : value["value"]) {
        if (element.is_object()) collect(element, path + "[]", keys);
      }
    }
  } else if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (const json& element : value) collect(element, path + "[]", keys);
  } else if (value.is_object() && path != "workers[].env" && path != "workers[].origins" &&
             path != "workers[].output" && path != "remote_launcher.variables") {
    for (const auto& [key, member] : value.items())
      collect(member, path.empty() ? key : path + "." + key, keys);
  } else if (!value.is_null() && !(value.is_array() && value.empty())) {
    keys.insert(path);
  }
}

Keys printed_keys() {
  Keys keys;
  for (const test::PlanCase& each : test::plan_cases()) {
    const std::string text = test::read_text(each.folder / "plan.json");
    if (!text.empty()) collect(read_json_text(text), "", keys);
  }
  for (const test::NodeScene& scene : test::node_scenes())
    collect(read_json_text(render_json(scene.plan, scene.snapshot)), "", keys);
  return keys;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

plan::LaunchPlan plan_of(const std::string& name, facts::Snapshot& snapshot) {
  test::PlanCase found = test::read_plan_case(test::data_folder("plans") / name);
  snapshot = std::move(found.snapshot);
  return test::plan_node(snapshot, found.options);
}

}  // namespace

TEST_CASE("the manual names the keys of the plan as JSON and no others") {
  CHECK(printed_keys() == test::keys_in_manual("THE PLAN AS JSON"));
}

TEST_CASE("every key of the plan is always there") {
  const auto keys_of = [](const json& object) {
    Keys keys;
    for (const auto& [key, value] : object.items()) keys.insert(key);
    return keys;
  };
  facts::Snapshot snapshot;
  const plan::LaunchPlan alone = plan_of("alone-laptop", snapshot);
  const json least = read_json_text(render_json(alone, snapshot));
  const plan::LaunchPlan step = plan_of("slurm-array", snapshot);
  const json most = read_json_text(render_json(step, snapshot));
  CHECK(keys_of(least) == keys_of(most));
  for (const char* part : {"allocation", "rendezvous"}) CHECK(keys_of(least[part]) == keys_of(most[part]));
  CHECK(keys_of(least["workers"][0]) == keys_of(most["workers"][0]));
}

TEST_CASE("what only the start decides is null in JSON") {
  facts::Snapshot snapshot;
  const plan::LaunchPlan plan = plan_of("slurm-one-a-node", snapshot);
  const json environment = read_json_text(render_json(plan, snapshot))["workers"][0]["env"];
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "DDPRUN_LAUNCH_ID",
                           "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    CAPTURE(name);
    REQUIRE(environment.contains(name));
    CHECK(environment[name].is_null());
  }
  CHECK(environment["WORLD_SIZE"] == "24");
}

TEST_CASE("shell lines hold the first worker's variables, with the first address and port there is") {
  facts::Snapshot snapshot;
  const plan::LaunchPlan plan = plan_of("slurm-reserved-ports", snapshot);
  const std::string lines = render_shell(plan, snapshot);
  CHECK(holds(lines, "export MASTER_ADDR=n1\nexport MASTER_PORT=12002\n"));
  CHECK(holds(lines, "export TORCHELASTIC_USE_AGENT_STORE=False\n"));
  CHECK(holds(lines, "export WORLD_SIZE=24\n"));
  for (const char* made_later : {"ERROR_FILE", "LAUNCH_ID", "IFNAME"}) {
    CHECK(lines.find(made_later) == std::string::npos);
  }
}

TEST_CASE("shell lines unset what is removed, and only what a shell can name") {
  facts::Snapshot snapshot;
  plan_of("slurm-pmi2-several-workers", snapshot);
  const test::PlanCase found =
      test::read_plan_case(test::data_folder("plans") / "slurm-pmi2-several-workers");
  snapshot.environment["PMI_x;touch y"] = "1";
  const std::string lines = render_shell(test::plan_node(snapshot, found.options), snapshot);
  CHECK(holds(lines, "unset PMI_RANK\n"));
  CHECK(lines.find("touch") == std::string::npos);
}

TEST_CASE("shell lines quote values") {
  facts::Snapshot snapshot;
  test::PlanCase found = test::read_plan_case(test::data_folder("plans") / "alone-laptop");
  found.options.place.run_id = sourced(std::string("it's\n$HOME"), "--rdzv-id");
  const std::string lines = render_shell(test::plan_node(found.snapshot, found.options), found.snapshot);
  CHECK(holds(lines, "export TORCHELASTIC_RUN_ID='it'\\''s\n$HOME'\n"));
}

TEST_CASE("JSON tells what a worker holds") {
  const test::NodeScene scene = test::scene_of("frontier");
  const json worker = read_json_text(render_json(scene.plan, scene.snapshot))["workers"][3];
  CHECK(worker["binding"] ==
        json({{"cpus", "25-31,89-95"}, {"cores", 7}, {"memory_nodes", {1}}, {"memory_policy", "preferred"}}));
  CHECK(worker["gpus"] == json({"0000:ce:00.0"}));
  CHECK(worker["network_card"] == "hsn1");
}

TEST_CASE("JSON tells what the node is made of and what is left") {
  test::NodeScene scene = test::scene_of("one-task");
  scene.snapshot.host.gpus[1].uuid = "GPU-1";
  scene.snapshot.host.allowed_cpus.erase(scene.snapshot.host.allowed_cpus.begin());
  const json binding = read_json_text(render_json(scene.plan, scene.snapshot))["binding"];
  CHECK(binding["origin"] == "cores near each GPU");
  CHECK(binding["topology"] == "hwloc 2.9.0");
  CHECK(binding["packages"] == 1);
  CHECK(binding["nodes"][3] ==
        json({{"number", 3}, {"cpus", "48-63,112-127"}, {"memory_bytes", std::int64_t{64} << 30}}));
  CHECK(binding["gpus"][1] ==
        json({{"vendor", "nvidia"}, {"pci_address", "0000:41:00.0"}, {"uuid", "GPU-1"}}));
  CHECK(binding["spare"] == "15,31,47,63,79,95,111,127");
  CHECK(binding["not_allowed"] == "0");
}

TEST_CASE("JSON says null of a binding that is not there") {
  const test::NodeScene scene = test::scene_of("unbound");
  const json plan = read_json_text(render_json(scene.plan, scene.snapshot));
  CHECK(plan["workers"][0]["binding"].is_null());
  CHECK(plan["binding"]["spare"] == "");
}

TEST_CASE("the plan as text draws the node") {
  const test::NodeScene scene = test::scene_of("dgx-a100");
  const std::string text = render_text(scene.plan, scene.snapshot);
  CHECK(holds(text,
              "\nbinding\n"
              "  cores         cores near each GPU                              default\n"
              "  memory        their own NUMA nodes first                       default\n"
              "  2 packages, 8 NUMA nodes"));
  for (const std::string& line : split(draw_node_text(scene.plan, scene.snapshot), '\n')) {
    CAPTURE(line);
    CHECK((line.empty() || holds(text, "\n  " + line + "\n")));
  }
}

TEST_CASE("the plan as text says why a node without topology is not bound") {
  test::NodeScene scene = test::scene_of("unbound");
  scene.snapshot.host.topology.reset();
  CHECK(!holds(render_text(scene.plan, scene.snapshot), "\nbinding\n"));
  CHECK(holds(render_text(scene.plan, scene.snapshot),
              "\n  binding       CPUs that were chosen for this task              default\n"));
  test::change_node(scene.plan, [](plan::NodeProposal& node) {
    node.options.bind = {options::BindMode::none, {}, false, "--bind"};
  });
  CHECK(holds(render_text(scene.plan, scene.snapshot),
              "\n  binding       not bound                                        --bind\n"));
  scene.plan.binding.origin.clear();
  CHECK(!holds(render_text(scene.plan, scene.snapshot), "  binding"));
}
