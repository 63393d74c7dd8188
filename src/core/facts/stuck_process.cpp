#include "facts/stuck_process.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace ddprun::facts {

std::string describe(const StuckProcess& process) {
  const std::string who = fmt::format("pid {} ({})", process.pid, printable(process.name));
  if (process.tracer != 0) {
    return fmt::format("{} is traced by {} (pid {}), which has not released it", who,
                       printable(process.tracer_name), process.tracer);
  }
  const std::string where = process.wait_channel.empty() ? "" : " in " + printable(process.wait_channel);
  if (process.state == 'D') return fmt::format("{} is in uninterruptible sleep (state D){}", who, where);
  return fmt::format("{} is in state {}{}", who, process.state, where);
}

std::string hint_for(const StuckProcess& process, const std::string& host) {
  if (process.tracer != 0) return fmt::format("detach the tracer or end it: kill {}", process.tracer);
  return fmt::format(
      "a driver, a file system or a frozen cgroup blocks it, and no signal ends it; see dmesg on {}", host);
}

}  // namespace ddprun::facts
