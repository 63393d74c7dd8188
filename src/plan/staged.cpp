#include "plan/staged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "staging/manifest.hpp"
#include "staging/place.hpp"

namespace ddprun::plan {

std::vector<std::string> staged_paths(const options::Options& options, const facts::Snapshot& snapshot) {
  std::vector<std::string> paths;
  for (const std::string& path : options.stage.paths)
    paths.push_back(
        staging::plain_path(path.starts_with('/') ? path : snapshot.working_directory + "/" + path));
  return paths;
}

std::vector<std::string> stage_places(const options::Options& options, const facts::Snapshot& snapshot) {
  return staging::places(options.stage.to, facts::find_variable(snapshot, "TMPDIR"));
}

std::vector<staging::Mapping> expect_staged(const options::Options& options,
                                            const facts::Snapshot& snapshot) {
  std::vector<staging::Mapping> mappings;
  const std::string place = stage_places(options, snapshot).front();
  for (const std::string& path : staged_paths(options, snapshot)) {
    const std::string last = staging::is_archive(path) ? "unpacked" : staging::name_of(path);
    mappings.push_back(
        {{path}, fmt::format("{}/ddprun-stage-UID/{}/{}", place, staging::copy_folder(path, "HASH"), last)});
  }
  return mappings;
}

std::vector<std::string> point_command(const LaunchPlan& plan, std::vector<std::string> command) {
  if (plan.staged.empty() || command.empty()) return command;
  const std::size_t outside = std::min(plan.node->options.container.words.size(), command.size());
  for (std::size_t i = 1; i < outside; ++i) {
    for (const staging::Mapping& mapping : plan.staged) {
      const bool is_image = std::ranges::find(mapping.sources, command[i]) != mapping.sources.end();
      if (is_image) command[i] = mapping.copy;
    }
  }
  command.front() = staging::map_path(command.front(), plan.staged);
  return command;
}

}  // namespace ddprun::plan
