#include "agent/hang_search.hpp"

#include <algorithm>
#include <utility>

#include "lifecycle/after_success.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "status/hang_watch.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_early_exit{60'000};  // limit after which one line reports it

double cpus_of(const facts::HostFacts& host) {
  const auto allowed = static_cast<double>(host.allowed_cpus.size());
  return std::min(allowed, host.cpu_quota.value_or(allowed));
}

}  // namespace

HangSearch::HangSearch(boost::asio::io_context& context, const Plans& plans, const facts::HostFacts& host,
                       StatusService& status, Tell tell)
    : plans_(plans),
      host_(host),
      status_(status),
      tell_(std::move(tell)),
      look_timer_(context),
      exit_timer_(context) {}

void HangSearch::begin_attempt() {
  end_attempt();
  const auto& assignment = plans_.attempt->assignment;
  if (assignment.workers.empty()) return;
  attempt_ = std::make_shared<int>();
  const auto& timeout = plans_.node->options.hang.timeout;
  if (!timeout) return;
  if (!watch_) watch_.emplace(timeout->value);
  watch_->begin(assignment.workers.size(), cpus_of(host_) / assignment.local_world_size, os::now());
  wait_for_look(os::now());
}

void HangSearch::end_attempt() {
  attempt_.reset();
  exited_.reset();
  quiet_ = false;
  look_timer_.cancel();
  exit_timer_.cancel();
}

void HangSearch::wait_for_look(TimePoint began) {
  net::call_at(look_timer_, watch_->next_look(began, os::now()), [this] {
    if (attempt_) look();
  });
}

void HangSearch::look() {
  status_.measure(inspection::Depth::signs, [this, attempt = std::weak_ptr(attempt_),
                                             began = os::now()](const status::NodeStatus& node) {
    if (!attempt.expired()) look_at(node, began);
  });
}

void HangSearch::look_at(const status::NodeStatus& node, TimePoint began) {
  if (node.measured == Milliseconds{0}) return wait_for_look(began);  // an empty measurement is no silence
  const TimePoint now = os::now(), counted{node.measured};
  for (std::size_t i = 0; i < node.workers.size(); ++i)
    watch_->note(i, status::signs_of(node.workers[i]), counted, now);
  tell_quiet(watch_->quiet_for(now));
  wait_for_look(began);
}

void HangSearch::tell_quiet(std::optional<Milliseconds> since) {
  if (std::exchange(quiet_, since.has_value()) == since.has_value()) return;
  tell_(rendezvous::Quiet{plans_.attempt->assignment.attempt, since.has_value(),
                          since.value_or(Milliseconds{0})});
}

void HangSearch::note_exit(std::size_t worker) {
  const auto& assignment = plans_.attempt->assignment;
  if (!attempt_ || exited_ || assignment.world_size < 2) return;
  if (!lifecycle::starts_python(plans_.node->offered.front().command)) return;
  exited_ = assignment.workers.at(worker).rank;
  const auto& barrier = plans_.node->options.hang.exit_barrier;
  const bool first = !barrier || barrier->value > k_early_exit;
  wait_for_exits(first ? k_early_exit : barrier->value, !first);
}

void HangSearch::wait_for_exits(Milliseconds since, bool expired) {
  net::call_after(exit_timer_, since, [this, since, expired] {
    if (!attempt_ || !exited_) return;
    const auto& barrier = plans_.node->options.hang.exit_barrier;
    tell_(rendezvous::EarlyExit{plans_.attempt->assignment.attempt, *exited_, since, expired});
    if (barrier && !expired) wait_for_exits(barrier->value - since, true);
  });
}

}  // namespace ddprun::agent
