// Standby interpreters: prepared while the workers run, and taken at the next attempt's start.
#include <unistd.h>

#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/terminal/terminal.hpp"
#include "workers/worker_group.hpp"
#include "workers/worker_streams.hpp"

namespace ddprun::workers {

namespace {

constexpr Milliseconds k_take_limit{2000};  // limit for all workers together

}  // namespace

void WorkerGroup::begin_standbys() {
  take_until_ = os::now() + k_take_limit;
  if (!standbys_) return;
  standbys_->drop_from(plan_->planned.size());
  standbys_->begin(folder_.path() + "/standby");
}

// Starts a standby interpreter. Python asks once, as it starts, whether its output is a terminal.
void WorkerGroup::start_standby(std::size_t worker, const plan::LaunchPlan& expected) {
  const plan::LaunchPlan& plan = worker < workers_.size() ? *plan_ : expected;
  begin_inspection(plan);
  standbys_->begin(folder_.path() + "/standby");  // on a spare no attempt has begun
  Streams streams;
  const int null = streams.own(os::open_null());
  const bool to_terminal = terminal_.has_value();
  streams.input = null;
  streams.output = to_terminal && os::is_terminal(STDOUT_FILENO) ? STDOUT_FILENO : null;
  streams.error = to_terminal && os::is_terminal(STDERR_FILENO) ? STDERR_FILENO : null;
  const std::string error_file = worker < workers_.size() ? workers_[worker]->error_file : std::string();
  standbys_->start(worker, make_request(plan, worker, streams, error_file));
}

bool WorkerGroup::take_standby(std::size_t worker, const os::SpawnRequest& request) {
  if (!standbys_) return false;
  Worker& state = *workers_[worker];
  auto taken = standbys_->take(worker, request, take_until_);
  if (auto* const why_not = std::get_if<std::string>(&taken)) {
    if (plan_->assignment.attempt.value > 0) state.started = "without a standby interpreter: " + *why_not;
    return false;
  }
  state.started = "by a standby interpreter";
  state.child = std::move(std::get<os::Child>(taken));
  if (request.terminal >= 0) terminal_->give_to(state.child->pid());
  return true;
}

}  // namespace ddprun::workers
