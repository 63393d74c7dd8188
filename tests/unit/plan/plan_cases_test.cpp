// Every folder of tests/data/plans is a case: options.json in (see plan_cases.hpp); the plan as --dry-run
// prints it out, as a table and as JSON, or the error that the user sees.
// DDPRUN_ACCEPT=1 writes the present output as the expected one and fails, so that it is looked at.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "allocation_cases.hpp"
#include "catch.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/facts/secrets.hpp"
#include "ddprun/render/render_plan.hpp"
#include "ddprun/render/render_remote_launch.hpp"
#include "ddprun/selflaunch/remote_launcher.hpp"
#include "plan_cases.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

struct Printed {
  std::string text;
  std::string json;  // empty where the launch is refused
};

// The files stay the same from release to release.
std::string without_version(std::string text) {
  const std::size_t at = text.find(DDPRUN_VERSION);
  return at == std::string::npos ? text : text.replace(at, std::string(DDPRUN_VERSION).size(), "VERSION");
}

Printed print(const Snapshot& snapshot, const Options& options) {
  try {
    if (const auto remote_launcher = test::plan_self_launch(snapshot, options))
      return {without_version(render_text(*remote_launcher)),
              without_version(render_json(*remote_launcher, snapshot))};
    const LaunchPlan plan = plan_node(snapshot, options);
    return {without_version(render_text(plan, snapshot)), without_version(render_json(plan, snapshot))};
  } catch (const Error& error) {
    return {
        fmt::format("ddprun: {}\nhint: {}\nexit code {}\n", error.what(), error.hint(), error.exit_code()),
        {}};
  }
}

void check_file(const std::filesystem::path& path, const std::string& expected) {
  if (std::getenv("DDPRUN_ACCEPT") != nullptr) {
    std::ofstream(path) << expected;
    FAIL_CHECK("wrote " << path.string() << "; look at the difference");
    return;
  }
  CHECK(read_text(path) == expected);
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("plans are printed as the cases say") {
  const auto cases = read_plan_cases();
  CHECK(cases.size() >= 25);
  for (const PlanCase& each : cases) {
    DYNAMIC_SECTION(each.folder.filename().string()) {
      const Printed printed = print(each.snapshot, each.options);
      check_file(each.folder / "plan.txt", printed.text);
      if (!printed.json.empty()) {
        check_file(each.folder / "plan.json", printed.json);
        CHECK(widest_line(printed.text) <= 100);
      }
      for (const char* odd : {" 1 nodes", " 1 workers", " 1 cores", " 1 GPUs", " 1 tasks", " 1 CPUs"}) {
        CAPTURE(odd);
        CHECK(printed.text.find(odd) == std::string::npos);
      }
    }
  }
}

TEST_CASE("a captured snapshot gives the same plan") {
  for (const PlanCase& each : read_plan_cases()) {
    CAPTURE(each.folder.filename().string());
    const std::string file =
        render_snapshot(without_secrets(each.snapshot, site_variables(builtin_site_profiles())));
    const Printed before = print(each.snapshot, each.options);
    const Printed after = print(parse_snapshot(file, "captured.json"), each.options);
    CHECK(after.text == before.text);
    CHECK(after.json == before.json);
  }
}
