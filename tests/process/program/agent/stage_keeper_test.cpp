// Copies on this host, made by a real process beside the agent.
#include "agent/stage_keeper.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"
#include "os/read_file.hpp"
#include "plan_node.hpp"
#include "run_until.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::testing;

namespace {

struct Staging {
  explicit Staging(const std::vector<std::string>& names, bool keep = false) {
    std::filesystem::create_directory(place());
    std::ofstream(folder.path() + "/data") << "rows";
    snapshot.host.name = "n1";
    snapshot.working_directory = folder.path();
    options::Options options;
    options.no_python = true;
    options.command = {"true"};
    for (const std::string& name : names) options.stage.paths.push_back(folder.path() + "/" + name);
    options.stage.to = place();
    options.stage.keep = keep;
    plans.node = test::plan_node(snapshot, options).node;
    keeper.emplace(context, plans, snapshot, [this] { ++settled; });
  }
  std::string place() const { return folder.path() + "/place"; }
  std::string source() const { return folder.path() + "/data"; }
  bool holds_copies() const {
    const auto all = std::filesystem::recursive_directory_iterator(place());
    return std::any_of(begin(all), end(all), [](const auto& entry) { return entry.is_regular_file(); });
  }
  void run_until_settled() {
    REQUIRE(runs_until(context, [this] { return settled > 0; }));
  }

  os::TempDir folder{std::optional<std::string>{}};
  boost::asio::io_context context;
  facts::Snapshot snapshot;
  Plans plans;
  std::optional<StageKeeper> keeper;
  int settled = 0;
};

}  // namespace

TEST_CASE("a path is copied before the workers start, and the copy is gone once the keeper has ended") {
  Staging staging({"data"});
  CHECK_FALSE(staging.keeper->is_settled());
  CHECK(staging.keeper->door().empty());  // no other host needs it
  staging.keeper->begin({});
  staging.keeper->begin({});
  staging.run_until_settled();
  CHECK(staging.keeper->is_settled());
  REQUIRE(staging.keeper->mappings().size() == 1);
  const auto& mapping = staging.keeper->mappings().front();
  CHECK(mapping.sources.front() == staging.source());
  CHECK(mapping.copy.starts_with(staging.place() + "/"));
  CHECK(os::read_file(mapping.copy, 100) == "rows");
  staging.keeper->end();
  CHECK_FALSE(staging.holds_copies());
  CHECK(staging.settled == 1);
}

TEST_CASE("copies of --stage-keep stay") {
  Staging staging({"data"}, /*keep=*/true);
  staging.keeper->begin({});
  staging.run_until_settled();
  staging.keeper->end();
  CHECK(staging.holds_copies());
}

TEST_CASE("a path that cannot be copied stands for itself, and the others are copied") {
  Staging staging({"absent", "data"});
  staging.keeper->begin({});
  staging.run_until_settled();
  REQUIRE(staging.keeper->mappings().size() == 2);
  CHECK(staging.keeper->mappings()[0].copy == staging.folder.path() + "/absent");
  CHECK(staging.keeper->mappings()[1].copy.starts_with(staging.place() + "/"));
}

TEST_CASE("without --stage there is nothing to wait for") {
  Staging staging({});
  CHECK(staging.keeper->is_settled());
  staging.keeper->begin({});
  CHECK(staging.keeper->mappings().empty());
  CHECK(staging.settled == 0);
}

TEST_CASE("a keeper that ends while it copies leaves nothing") {
  Staging staging({"data"});
  staging.keeper->begin({});
  staging.keeper->end();
  CHECK_FALSE(staging.holds_copies());
}
