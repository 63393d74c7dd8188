#include "agent/warned_workers.hpp"

#include <fmt/format.h>

#include <utility>

#include "console/log.hpp"
#include "net/timers.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/read_file.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

using lifecycle::PendingWarning;

WarnedWorkers::WarnedWorkers(boost::asio::io_context& context, const Plans& plans,
                             workers::WorkerGroup& workers, Hooks hooks)
    : plans_(plans), workers_(workers), hooks_(std::move(hooks)), timer_(context) {}

void WarnedWorkers::begin(int signal) {
  signal_ = signal;
  pending_.begin(plans_.attempt->planned.size(), os::now());
  look();
}

void WarnedWorkers::end() {
  pending_.end();
  timer_.cancel();
}

PendingWarning::Worker WarnedWorkers::state_of(std::size_t worker) const {
  if (!hooks_.runs(worker)) return PendingWarning::Worker::gone;
  const std::string path = fmt::format("/proc/{}/status", workers_.pid(worker));
  const bool handles = lifecycle::handles_signal(os::try_read_file(path).value_or(""), signal_);
  return handles ? PendingWarning::Worker::ready : PendingWarning::Worker::deaf;
}

void WarnedWorkers::look() {
  const auto step = pending_.look([this](std::size_t worker) { return state_of(worker); }, os::now());
  for (const std::size_t worker : step.send) {
    workers_.signal(worker, signal_);
    hooks_.sent(signal_);
  }
  if (!step.tell.empty()) tell_deaf(step.tell);
  net::call_at(timer_, pending_.deadline(), [this] { look(); });
}

void WarnedWorkers::tell_deaf(const std::vector<std::size_t>& workers) const {
  std::vector<int> ranks;
  for (const std::size_t worker : workers) ranks.push_back(plans_.attempt->planned[worker].rank.value);
  const std::string signal = options::signal_name(signal_);
  console::say_notice(
      fmt::format("{} on {} cannot be sent {}: {}", report::name_ranks(ranks), plans_.node->host, signal,
                  ranks.size() == 1 ? "its main process does not handle it"
                                    : "their main processes do not handle it"),
      "set a handler in the training script, and start Python by exec in a shell script");
}

}  // namespace ddprun::agent
