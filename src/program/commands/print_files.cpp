#include "commands/print_files.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "events/timeline.hpp"
#include "os/files/slow_files.hpp"
#include "os/process/become.hpp"
#include "os/read_file.hpp"
#include "plan/propose.hpp"
#include "plan/rendezvous_plan.hpp"
#include "render/node_picture.hpp"
#include "render/render_plan.hpp"
#include "site/site.hpp"

namespace ddprun::commands {

namespace {

constexpr std::size_t k_events_limit = std::size_t{1} << 30U;

}  // namespace

std::string draw_timeline(const options::Options& options) {
  const std::string& path = options.timeline_file;
  const std::string events =
      path == "-" ? os::read_standard_input(k_events_limit) : os::read_file(path, k_events_limit);
  const events::Timeline timeline = events::make_timeline(events);
  if (timeline.from == 0) {
    throw UsageError(fmt::format("{} contains no ddprun events", printable(path)),
                     "give a file written by --events");
  }
  const std::string& output = options.output_file;
  if (output.empty() || output == "-") return events::render_timeline_text(timeline);
  write_file(output, events::render_timeline_html(timeline), "name another file with -o");
  return {};
}

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

namespace {

// Returns the variables by which a site is recognised, which belong to a capture also if no scheduler sets
// them. A profile that cannot be read is no reason to write none: it is in there, and planning from it shows
// what is wrong.
std::vector<std::string> recognising_variables(const facts::Snapshot& snapshot) {
  try {
    return site::site_variables(site::list_site_profiles(snapshot));
  } catch (const UsageError&) {
    return site::site_variables(site::builtin_site_profiles());
  }
}

// Refuses to overwrite a script: `ddprun --capture train.py` names it, and it must not be lost.
void refuse_overwriting(const std::string& path) {
  const std::string contents = os::ask_file_system(
      "cannot write " + printable(path), [&] { return os::read_head(path, facts::k_snapshot_limit); });
  if (contents.empty()) return;
  try {
    facts::parse_snapshot(contents, path);
  } catch (const Error&) {
    throw UsageError(fmt::format("--capture would overwrite {}, which is not a capture", printable(path)),
                     "name another file, or - for standard output");
  }
}

}  // namespace

// Writes the capture so that only the user can read it, until the user sends it: a value that is no secret to
// the tables may be one.
int write_capture(const facts::Snapshot& snapshot, const options::Options& options) {
  const std::string& path = options.capture_file;
  const facts::Snapshot clean = facts::without_secrets(snapshot, recognising_variables(snapshot));
  const std::string text = facts::render_snapshot(clean);
  if (path == "-") return console::print_data(text), 0;
  refuse_overwriting(path);
  os::set_umask(077);  // set for the rest of the process, which writes nothing else
  write_file(path, text, "name another file for --capture");
  console::say(fmt::format("wrote a snapshot of this host to {}; {}", path,
                           clean.removed_secrets.empty()
                               ? "no secrets were found"
                               : "removed the secrets in " + join(clean.removed_secrets, ", ")));
  return 0;
}

void write_file(const std::string& path, const std::string& text, const char* hint) {
  const std::string why = os::replace_slow_file(path, text);
  if (!why.empty()) throw Error(fmt::format("cannot write {}: {}", printable(path), why), hint);
}

}  // namespace ddprun::commands
