// What a driver does about bindings: once all agents have met, and before the first worker is started.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/driver.hpp"
#include "console/log.hpp"
#include "os/machine/own_cpus.hpp"

namespace ddprun::agent {

// What was expected alone may have been wrong about the other agents of this host.
void Driver::say_new_notices() {
  for (const allocation::Notice& notice : plan_->notices) {
    if (std::find(said_.begin(), said_.end(), notice) != said_.end()) continue;
    node_->rendezvous.agent.value == 0 ? console::say_notice(notice.what, notice.hint)
                                       : console::say_detail(notice.what);
    said_.push_back(notice);
  }
}

// The loop that pumps output and serves store and rendezvous is this one thread.
void Driver::step_aside() {
  if (plan_->binding.spare.empty() || std::exchange(stepped_aside_, true)) return;
  const bool moved = os::keep_to_cpus(plan_->binding.spare);
  console::say_detail(fmt::format("ddprun itself {} {} on {}", moved ? "is bound to" : "cannot be bound to",
                                  facts::describe({plan_->binding.spare, {}, facts::MemoryPolicy::untouched}),
                                  node_->host));
}

}  // namespace ddprun::agent
