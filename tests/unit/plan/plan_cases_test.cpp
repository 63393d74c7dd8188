// Every folder of tests/data/plans is a case: options.json in (see plan_cases.hpp); the plan as --dry-run
// prints it out, as a table and as JSON, or the error that the user sees.
// DDPRUN_ACCEPT=1 writes the present output as the expected one and fails, so that it is looked at.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "facts/secrets.hpp"
#include "plan_cases.hpp"
#include "plan_node.hpp"
#include "render/render_plan.hpp"
#include "render/render_remote_launch.hpp"
#include "selflaunch/remote_launcher.hpp"
#include "version_number.hpp"

using namespace ddprun;
using namespace ddprun::plan;
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

Printed print(const facts::Snapshot& snapshot, const options::Options& options) {
  try {
    if (const auto remote_launcher = test::plan_self_launch(snapshot, options))
      return {without_version(render::render_text(*remote_launcher, snapshot, options.time_limit)),
              without_version(render::render_json(*remote_launcher, snapshot, options.time_limit))};
    const LaunchPlan plan = plan_node(snapshot, options);
    return {without_version(render::render_text(plan, snapshot)),
            without_version(render::render_json(plan, snapshot))};
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

// Every case as it is printed here, in the order of plan_cases().
const std::vector<Printed>& printed_cases() {
  static const std::vector<Printed> k_printed = [] {
    std::vector<Printed> printed;
    for (const PlanCase& each : plan_cases()) printed.push_back(print(each.snapshot, each.options));
    return printed;
  }();
  return k_printed;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("plans are printed as the cases say") {
  const auto& cases = plan_cases();
  CHECK(cases.size() >= 25);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const PlanCase& each = cases[i];
    CAPTURE(each.folder.filename().string());
    const Printed& printed = printed_cases()[i];
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

TEST_CASE("a captured snapshot gives the same plan") {
  for (std::size_t i = 0; i < plan_cases().size(); ++i) {
    const PlanCase& each = plan_cases()[i];
    CAPTURE(each.folder.filename().string());
    const std::string file = facts::render_snapshot(
        facts::without_secrets(each.snapshot, site::site_variables(site::builtin_site_profiles())));
    const Printed& before = printed_cases()[i];
    const Printed after = print(facts::parse_snapshot(file, "captured.json"), each.options);
    CHECK(after.text == before.text);
    CHECK(after.json == before.json);
  }
}
