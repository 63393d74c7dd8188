#include "commands/dry_run.hpp"

#include <string>

#include "base/error.hpp"
#include "commands/capture.hpp"
#include "console/log.hpp"
#include "console/print.hpp"
#include "plan/propose.hpp"
#include "plan/rendezvous_plan.hpp"
#include "render/node_picture.hpp"
#include "render/render_plan.hpp"

namespace ddprun::commands {

namespace {

int print_picture(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (!snapshot.host.topology) {
    throw UsageError("--dry-run=svg needs a topology", "leave out --bind none, or give --topology FILE");
  }
  const std::string picture = render::draw_node_svg(plan, snapshot);
  if (plan.node->options.picture_file.empty()) return console::print_data(picture), 0;
  write_file(plan.node->options.picture_file, picture, "name another file for the picture");
  return 0;
}

}  // namespace

// Prints the plan. With many agents one of them speaks for all, unless each was typed by hand; =env is for
// the shell that asked, and a snapshot is of one.
int print_plan(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (plan.node->options.dry_run == options::DryRun::env) {
    console::say_notice(render::find_missing_ranks(plan));
    return console::print_data(render::render_shell(plan, snapshot)), 0;
  }
  if (plan.node->options.dry_run == options::DryRun::svg) return print_picture(plan, snapshot);
  const bool asked_here =
      plan::is_by_flags(plan.node->allocation) || !plan.node->options.snapshot_file.empty();
  if (plan.node->rendezvous.agent.value != 0 && !asked_here) return 0;
  plan.node->options.dry_run == options::DryRun::json
      ? console::print_data(render::render_json(plan, snapshot))
      : console::print_text(render::render_text(plan, snapshot));
  return 0;
}

}  // namespace ddprun::commands
