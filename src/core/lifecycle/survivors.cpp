#include "lifecycle/survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr std::size_t k_named = 3;

constexpr std::array<std::string_view, 4> k_helpers{"multiprocessing.resource_tracker",
                                                    "multiprocessing.forkserver", "multiprocessing.spawn",
                                                    "_inductor/compile_worker"};

}  // namespace

bool is_left_running(std::string_view command_line) {
  return !command_line.empty() && std::ranges::none_of(k_helpers, [&](std::string_view helper) {
    return command_line.find(helper) != std::string_view::npos;
  });
}

allocation::Notice describe_survivors(const std::vector<Survivor>& survivors, const std::string& host) {
  std::vector<std::string> names;
  for (const Survivor& each : survivors) {
    if (names.size() < k_named) names.push_back(fmt::format("{} (pid {})", printable(each.name), each.pid));
  }
  const std::size_t others = survivors.size() - names.size();
  const std::string count = survivors.size() == 1
                                ? "a process that a worker"
                                : fmt::format("{} processes that workers", survivors.size());
  return {
      fmt::format("stopping {} left running on {}: {}{}", count, printable(host), join(names, ", "),
                  others > 0 ? fmt::format(" and {} more", others) : ""),
      "what workers start ends with them: wait for it at the end of the script, or start it after ddprun"};
}

}  // namespace ddprun::lifecycle
