// How a driver binds: once all agents have met, and before the first worker is started.
#include <fmt/format.h>

#include <utility>

#include "ddprun/os/capture/own_cpus.hpp"
#include "ddprun/plan/node_binding.hpp"
#include "driver.hpp"
#include "log.hpp"

namespace ddprun {

// A plan that was made alone may have been wrong about the other agents of this host.
void Driver::bind(const Assignment& assignment) {
  const std::size_t said = plan_.notices.size();
  if (!assignment.local_peers.empty()) bind_workers(plan_, snapshot_, assignment.local_peers);
  for (std::size_t i = said; i < plan_.notices.size(); ++i) {
    const Notice& notice = plan_.notices[i];
    plan_.rendezvous.agent.value == 0 ? say_notice(notice.what, notice.hint) : say_detail(notice.what);
  }
  step_aside();
}

// The loop that pumps output and serves store and rendezvous is this one thread.
void Driver::step_aside() {
  if (plan_.binding.spare.empty() || std::exchange(stepped_aside_, true)) return;
  const bool moved = keep_to_cpus(plan_.binding.spare);
  say_detail(fmt::format("ddprun itself {} {} on {}", moved ? "is bound to" : "cannot be bound to",
                         describe({plan_.binding.spare, {}, MemoryPolicy::untouched}), plan_.host));
}

}  // namespace ddprun
