#include "plan/output_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output/log_layout.hpp"
#include "output/routes.hpp"

namespace ddprun::plan {

namespace {

std::string run_folder(const LaunchPlan& plan) {
  const output::OutputOptions& options = plan.node->options.output;
  const std::string name = output::folder_name(plan.node->run_id.value);
  if (output::layout_of(options) == output::LogLayout::ranks) return options.logs.value + "/" + name;
  const std::string base =
      options.log_dir.value.empty() ? "$TMPDIR/torchelastic_XXXXXX" : options.log_dir.value;
  return fmt::format("{}/{}_XXXXXX", base, name);
}

}  // namespace

OutputWay output_way(const LaunchPlan& plan, std::size_t worker, output::Stream stream) {
  const output::OutputOptions& options = plan.node->options.output;
  const PlannedWorker& planned = plan.planned[worker];
  const output::StreamRoute route = output::route_stream(options, planned.local_rank, planned.rank, stream);
  OutputWay way;
  way.console = route.console;
  way.gathered = route.console && options.gather && plan.node->rendezvous.agents > 1;
  if (route.file) {
    const output::LogLayout layout = output::layout_of(options);
    way.file = fmt::format("{}/{}/{}", run_folder(plan), output::attempt_folder_name(layout, Attempt{0}),
                           output::log_file_name(layout, planned.local_rank, planned.rank, stream));
    way.by_worker = !route.console && !output::writes_for_workers(options);
  }
  const output::LabelFacts facts{planned.rank, planned.local_rank, Attempt{0}, plan.node->host,
                                 plan.node->options.role.value};
  const int hosts = plan.node->rendezvous.agents > 1 ? 2 : 1;
  if (route.console) way.label = output::label_of(options, route, facts, hosts, false).at(Milliseconds{0});
  return way;
}

bool directs_output(const output::OutputOptions& options) {
  return output::wants_files(options) || options.label || options.gather || !options.ranks.all ||
         !options.local_ranks.empty();
}

std::string describe(const OutputWay& way) {
  std::string text = way.gathered ? "console of the coordinator" : way.console ? "console" : "";
  if (!way.label.empty()) text += fmt::format(", as '{}...'", way.label);
  if (way.file.empty()) return text.empty() ? "not shown" : text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : "; ", way.file);
}

std::optional<allocation::Notice> find_unseen_output(const LaunchPlan& plan) {
  const options::Options& options = plan.node->options;
  const auto& [all, ranges] = options.output.ranks;
  const int world = plan.assignment.world_size;
  const int here = plan.assignment.local_world_size;
  const bool fixed = !options::outlives_nodes(options);
  const auto unseen = [](const char* option, const char* noun, int count) {
    return allocation::Notice{
        fmt::format("{} chooses none of the {} {}: no output is shown", option, count, noun),
        fmt::format("give a number from 0 to {}, or leave out {}", count - 1, option)};
  };
  const bool no_rank = !all && !ranges.empty() &&
                       std::ranges::all_of(ranges, [&](const auto& range) { return range.first >= world; });
  if (fixed && world > 0 && no_rank) return unseen("--ranks", world == 1 ? "rank" : "ranks", world);
  const std::vector<int>& local = options.output.local_ranks;
  const bool no_local = !local.empty() && std::ranges::all_of(local, [&](int rank) { return rank >= here; });
  if (here > 0 && no_local)
    return unseen("--local-ranks-filter", here == 1 ? "local rank" : "local ranks", here);
  return std::nullopt;
}

}  // namespace ddprun::plan
