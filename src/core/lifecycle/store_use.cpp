#include "lifecycle/store_use.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace ddprun::lifecycle
