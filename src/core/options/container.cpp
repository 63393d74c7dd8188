#include "options/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/shell_words.hpp"

namespace ddprun::options {

namespace {

struct ContainerProgram {
  std::string_view name;
  ContainerKind kind;
  const char* prefix;
};

// apptainer/apptainer, internal/pkg/util/env/env.go; SingularityCE alike; podman-run(1): -e NAME takes the
// value of podman's own environment, and so does docker's.
constexpr std::array<ContainerProgram, 6> k_container_programs{
    {{"apptainer", ContainerKind::prefixed, "APPTAINERENV_"},
     {"singularity", ContainerKind::prefixed, "SINGULARITYENV_"},
     {"podman", ContainerKind::by_option, ""},
     {"podman-hpc", ContainerKind::by_option, ""},
     {"docker", ContainerKind::by_option, ""},
     {"nerdctl", ContainerKind::by_option, ""}}};

constexpr const char* k_container_hint = "as in --container 'apptainer exec --nv image.sif'";

auto find_subcommand(const std::vector<std::string>& words) {
  return std::ranges::find_if(words, [](const std::string& word) { return word == "run" || word == "exec"; });
}

}  // namespace

Container parse_container(const std::string& text, const std::string& origin) {
  Container container;
  container.words = split_shell_words(text, origin, k_container_hint);
  container.origin = origin;
  const std::string& program = container.words.front();
  const std::string_view name = std::string_view(program).substr(program.rfind('/') + 1);
  const auto known = std::ranges::find_if(k_container_programs,
                                          [&](const ContainerProgram& each) { return each.name == name; });
  if (known == k_container_programs.end()) return container;
  container.kind = known->kind;
  container.prefix = known->prefix;
  if (known->kind == ContainerKind::by_option && find_subcommand(container.words) == container.words.end()) {
    throw UsageError(fmt::format("{} names neither run nor exec of {}", origin, name),
                     fmt::format("as in --container '{} run --network=host IMAGE'", name));
  }
  return container;
}

bool enters_container(std::string_view name) {
  constexpr std::array<std::string_view, 6> k_starts{"NCCL_", "RCCL_", "GLOO_", "TORCH_", "OMP_", "PYTORCH_"};
  return std::ranges::any_of(k_starts, [&](std::string_view start) { return name.starts_with(start); }) ||
         name.ends_with("_VISIBLE_DEVICES") || name == "ZE_AFFINITY_MASK";
}

std::vector<std::string> wrap_in_container(const Container& container, std::vector<std::string> command) {
  command.insert(command.begin(), container.words.begin(), container.words.end());
  return command;
}

std::vector<std::string> name_variables(const Container& container, std::vector<std::string> command,
                                        const std::vector<std::string>& names) {
  if (container.kind != ContainerKind::by_option) return command;
  std::vector<std::string> given;
  for (const std::string& name : names) given.insert(given.end(), {"-e", name});
  command.insert(find_subcommand(command) + 1, given.begin(), given.end());
  return command;
}

}  // namespace ddprun::options
