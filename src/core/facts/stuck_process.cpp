#include "facts/stuck_process.hpp"

#include <fmt/format.h>
#include <utility>

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

namespace {

// Delay of a look after which the process that looks did not run itself.
constexpr Milliseconds k_own_sleep{5000};

bool does_not_run(char state) { return state == 'T' || state == 'D'; }

}  // namespace

void StoppedProcess::note(char state, std::uint64_t cpu_ticks, TimePoint now) {
  const bool slept = now > next_look_ + k_own_sleep;
  const bool goes_on = since_ && !slept && state == state_ && cpu_ticks == cpu_ticks_;
  if (!does_not_run(state)) {
    since_.reset();
  } else if (!goes_on) {
    since_ = now;
  }
  if (!goes_on) told_ = false;
  state_ = state;
  cpu_ticks_ = cpu_ticks;
  stopped_for_ = since_ ? std::chrono::floor<Milliseconds>(now - *since_) : Milliseconds{0};
  next_look_ = now + (since_ ? k_close_pause : k_usual_pause);
}

std::string describe_stopped(const StuckProcess& process, const std::string& host, Milliseconds time) {
  const std::string since = describe_duration(std::chrono::floor<std::chrono::seconds>(time));
  if (process.state == 'T')
    return fmt::format("ddprun on {} (pid {}) has been stopped (state T) for {}", printable(host),
                       process.pid, since);
  const std::string where = process.wait_channel.empty() ? "" : " in " + printable(process.wait_channel);
  return fmt::format("ddprun on {} (pid {}) has been waiting in the kernel (state {}){} for {}",
                     printable(host), process.pid, process.state, where, since);
}

std::string hint_for_stopped(const StuckProcess& process, const std::string& host) {
  if (process.tracer != 0) return hint_for(process, host);
  if (process.state == 'T')
    return fmt::format("`kill -CONT {}` on {} continues it", process.pid, printable(host));
  return fmt::format("a file system or a driver does not answer; see dmesg on {}", printable(host));
}

}  // namespace ddprun::facts
