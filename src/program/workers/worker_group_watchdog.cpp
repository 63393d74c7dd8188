// torch's watchdog timers of an attempt's workers: what does not finish in the time it asked for is killed,
// and is then a failure like any other.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "options/options.hpp"
#include "os/process/process_table.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

void WorkerGroup::begin_watchdog() {
  watchdog_.reset();
  if (facts::find_variable(snapshot_, "TORCHELASTIC_ENABLE_FILE_TIMER") != "1") return;
  const std::string named = facts::find_variable(snapshot_, "TORCHELASTIC_TIMER_FILE").value_or("");
  try {
    watchdog_.emplace(context_,
                      named.empty() ? attempt_folder(plan_->assignment.attempt) + "/watchdog" : named,
                      [this](const lifecycle::WatchdogTimers::Expired& expired) { end_expired(expired); });
  } catch (const Error& error) {
    console::say_notice(fmt::format("cannot start the watchdog timers on {}: {}", node_->host, error.what()),
                        "set TORCHELASTIC_TIMER_FILE to another path");
  }
}

// Ends a process whose timer has expired, only one below ours: any text may be written into the pipe.
void WorkerGroup::end_expired(const lifecycle::WatchdogTimers::Expired& expired) {
  const os::ProcessTable below = os::find_descendants(os::capture_processes(), ::getpid());
  const auto found = std::find_if(below.begin(), below.end(), [&](const os::ProcessEntry& process) {
    return process.pid == expired.pid;
  });
  if (found == below.end() || !os::send_signal_to(*found, expired.signal)) return;
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each->child && each->child->pid() == expired.pid;
  });
  const auto assigned = static_cast<std::size_t>(worker - workers_.begin());
  const std::string who = worker == workers_.end()
                              ? fmt::format("process {}", expired.pid)
                              : fmt::format("rank {}", plan_->assignment.workers[assigned].rank.value);
  console::say_notice(
      fmt::format("the watchdog timer '{}' of {} on {} has expired: {} sent", printable(expired.scope), who,
                  node_->host, options::signal_name(expired.signal)),
      {});
}

}  // namespace ddprun::workers
