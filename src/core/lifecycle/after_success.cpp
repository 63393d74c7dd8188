#include "lifecycle/after_success.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "plan/worker_command.hpp"

namespace ddprun::lifecycle {

bool starts_python(const std::vector<std::string>& command) { return plan::starts_python(command); }

bool may_train_together(const std::vector<std::string>& command) {
  return starts_python(command) && std::ranges::none_of(command, [](const std::string& word) {
           return word.ends_with("/ddprun/_worker.py");  // packaging/wheel/ddprun
         });
}

allocation::Notice describe_silent_store(Milliseconds waited) {
  return {fmt::format("no worker has reached the store within {}; does the script set MASTER_PORT or start "
                      "ranks itself?",
                      describe_duration(waited)),
          "call torch.distributed.init_process_group() without an address, and start no ranks in the script; "
          "the job continues"};
}

allocation::Notice describe_unused_store(int workers) {
  return {
      fmt::format("no worker connected to the store that torch.distributed uses: the script ran {} times, "
                  "once in each worker",
                  workers),
      "to train together, call torch.distributed.init_process_group() in the script; to run it once, add "
      "--nproc-per-node 1"};
}

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
