#include "command_line/requirements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::command_line {

namespace {

struct Requirement {
  const char* name;
  std::array<const char*, 2> needed;  // one of them
  const char* hint;
};

constexpr const char* k_add_memory = "add --checkpoint-memory SIZE, as in 40G";

constexpr Requirement k_refused[] = {
    {"watch", {"status"}, "add --status"},
    {"strict", {"check"}, "add --check"},
    {"exclude-file", {"check"}, "add --check"},
    {"stacks-every", {"logs"}, "add --logs FOLDER"},
    {"profile-every", {"logs"}, "add --logs FOLDER"},
    {"output", {"timeline", "profile"}, "add --timeline FILE or --profile TIME"},
    {"checkpoint-folder", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-rate", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-flush", {"checkpoint-memory"}, k_add_memory},
    {"checkpoint-flush-every", {"checkpoint-flush"}, "add --checkpoint-flush FOLDER"},
    {"checkpoint-keep", {"checkpoint-memory"}, k_add_memory},
};

constexpr Requirement k_without_effect[] = {
    {"on-hang", {"hang-timeout", "exit-barrier-timeout"}, "add --hang-timeout auto"},
    {"on-slow", {"slow-notice"}, "add --slow-notice 10%"},
    {"standby-memory", {"standby"}, "add --standby"},
    {"stage-to", {"stage"}, "add --stage PATH"},
    {"stage-keep", {"stage"}, "add --stage PATH"},
    {"check-timeout", {"check-command"}, "add --check-command"},
    {"gpu-release-timeout", {"check"}, "add --check=auto"},
    {"requeue-on", {"requeue"}, "add --requeue"},
    {"no-requeue-on", {"requeue"}, "add --requeue"},
};

bool is_alone(const Draft& draft, const Requirement& requirement) {
  return is_typed(draft, requirement.name) &&
         std::ranges::none_of(requirement.needed, [&](const char* other) {
           return other != nullptr && draft.origins.contains(other);
         });
}

std::string describe(const Requirement& requirement) {
  std::vector<std::string> names;
  for (const char* other : requirement.needed) {
    if (other != nullptr) names.push_back(fmt::format("--{}", other));
  }
  return join(names, " or ");
}

// node_exporter's textfile collector reads *.prom and nothing else.
void warn_of_metrics_name(Draft& draft) {
  const std::string& file = draft.metrics_file;
  if (file.empty() || file.ends_with(".prom") || file.starts_with("/dev/")) return;
  const auto given = draft.origins.find("metrics");
  draft.warnings.push_back(
      {fmt::format("{} writes {}, which Prometheus' textfile collector ignores",
                   given == draft.origins.end() ? "--metrics" : given->second, printable(file)),
       "it reads files named *.prom: give the file such a name"});
}

}  // namespace

bool is_typed(const Draft& draft, const std::string& name) {
  const auto given = draft.origins.find(name);
  return given != draft.origins.end() && given->second.starts_with("--");
}

void check_requirements(const Draft& draft) {
  for (const Requirement& each : k_refused) {
    if (is_alone(draft, each))
      throw UsageError(fmt::format("--{} requires {}", each.name, describe(each)), each.hint);
  }
}

void warn_of_no_effect(Draft& draft) {
  for (const Requirement& each : k_without_effect) {
    if (is_alone(draft, each))
      draft.warnings.push_back(
          {fmt::format("--{} has no effect without {}", each.name, describe(each)), each.hint});
  }
  warn_of_metrics_name(draft);
}

}  // namespace ddprun::command_line
