// The lines of --dry-run=env in real shells.
#include <unistd.h>

#include "base/text.hpp"
#include "catch.hpp"
#include "plan_node.hpp"
#include "processes.hpp"
#include "render/render_plan.hpp"

using namespace ddprun;
using namespace ddprun::render;

TEST_CASE("shells that eval the lines have the variables as they were meant") {
  const std::string odd = "it's \"odd\"\n$HOME `id` \\ * \t;";
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.environment = {{"PMI_FD", "1"}};
  options::Options options;
  options.workers = options::parse_workers_per_node("2", "--nproc-per-node");
  options.place.run_id = sourced(odd, "--rdzv-id");
  const plan::LaunchPlan plan = test::plan_node(snapshot, options);

  for (const char* shell : {"/bin/sh", "/bin/bash", "/bin/dash", "/bin/zsh"}) {
    if (::access(shell, X_OK) != 0) continue;
    CAPTURE(shell);
    os::SpawnRequest request = testing::worker_request({});
    request.arguments = {shell, "-c",
                         "eval \"$1\"; printf '%s|%s|%s' \"$TORCHELASTIC_RUN_ID\" \"$WORLD_SIZE\" "
                         "\"${PMI_FD-unset}\"",
                         "sh", render_shell(plan, snapshot)};
    request.environment = {"PMI_FD=1"};
    CHECK(testing::output_of(request) == odd + "|2|unset");
  }
}
