#include "workers/endings.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "check/xid.hpp"
#include "report/known_failures.hpp"
#include "report/root_cause.hpp"
#include "status/rank_view.hpp"

namespace ddprun::workers {

namespace {

constexpr std::int64_t k_most_ago = std::numeric_limits<int>::max();

bool was_killed(const ExitStatus& status) {
  return status.kind == ExitStatus::Kind::signalled && status.value == SIGKILL;
}

}  // namespace

Endings::Endings(WorkerGroup& workers, std::function<void()> settled, bool check)
    : workers_(workers), settled_(std::move(settled)) {
  if (check) kernel_log_.emplace();
}

void Endings::begin(std::shared_ptr<const plan::LaunchPlan> plan) {
  plan_ = std::move(plan);
  ended_.clear();
  trouble_.reset();
  stopped_ = stop_in_sight_ = false;
  finished_.clear();
  finished_ago_.clear();
  places_.clear();
  killed_.clear();
}

void Endings::note_stop_in_sight(TimePoint now) {
  if (std::exchange(stop_in_sight_, true)) return;
  for (const auto& [worker, ended] : ended_) {
    if (!ended.status.success()) continue;
    const auto before = std::chrono::floor<Milliseconds>(trouble_.value_or(now) - ended.at).count();
    finished_.push_back(plan_->planned[worker].rank.value);
    finished_ago_.push_back(static_cast<int>(std::clamp<std::int64_t>(before, 0, k_most_ago)));
  }
}

void Endings::note_stop(TimePoint now) {
  note_stop_in_sight(now);
  stopped_ = true;
  if (!trouble_) trouble_ = now;
}

void Endings::note_end(std::size_t worker, const ExitStatus& status, TimePoint now) {
  ended_[worker].status = status;
  ended_[worker].at = now;
  if (status.success()) return;
  if (!trouble_) trouble_ = now;
  // A later end was caused by the stop that followed the first failure.
  if (now - *trouble_ <= report::k_cause_window) describe(worker, status);
}

void Endings::describe(std::size_t worker, const ExitStatus& status) {
  ++pending_;
  ended_[worker].describing = true;
  workers_.describe_failure(worker, status, [this, worker, after_stop = stopped_](report::Failure failure) {
    complete(worker, std::move(failure), after_stop);
  });
}

void Endings::complete(std::size_t worker, report::Failure failure, bool after_stop) {
  failure.after_stop = after_stop;
  failure.gpu = plan_->planned[worker].device;
  if (was_killed(failure.status)) failure.out_of_memory = memory_.explain_kill(failure.pid);
  const std::string hint = report::find_failure_hint(failure, plan_->assignment.world_size);
  if (!hint.empty()) failure.hint = hint;
  if (kernel_log_) explain_by_gpu(worker, failure);
  Ended& ended = ended_[worker];
  ended.failure = std::move(failure);
  for (const auto& handler : std::exchange(ended.waiting, {})) handler(*ended.failure);
  if (--pending_ == 0) settled_();
}

void Endings::explain_by_gpu(std::size_t worker, report::Failure& failure) {
  for (const check::Xid& xid : kernel_log_->read().xids) {
    const auto* const fault = check::find_hardware_fault(xid);
    const bool own = std::ranges::any_of(plan_->planned[worker].gpus, [&](int gpu) {
      return plan_->node->gpus.at(static_cast<std::size_t>(gpu)).pci_address == xid.gpu;
    });
    if (!own || fault == nullptr || fault->mark != check::Mark::error) continue;
    failure.because = check::describe(xid, *fault);
    failure.gpu_fault = true;
    failure.hint = fault->fix;
    return;  // others follow from the first one
  }
}

void Endings::when_described(std::size_t worker, std::function<void(const report::Failure&)> handler) {
  Ended& ended = ended_.at(worker);
  if (ended.failure) return handler(*ended.failure);
  ended.waiting.push_back(std::move(handler));
  if (!ended.describing) describe(worker, ended.status);
}

std::vector<report::Failure> Endings::further(std::optional<GlobalRank> told) const {
  std::vector<report::Failure> failures;
  for (const auto& [worker, ended] : ended_) {
    if (!ended.failure || ended.failure->rank == told) continue;
    if (report::evidence_of(*ended.failure) != report::Evidence::stopped) failures.push_back(*ended.failure);
  }
  // Failures with the best evidence come first, since only the first few are sent.
  std::stable_sort(failures.begin(), failures.end(), [](const report::Failure& a, const report::Failure& b) {
    return report::evidence_of(a) < report::evidence_of(b);
  });
  return report::fold_alike(std::move(failures));
}

void Endings::note_places(const status::NodeStatus& node) {
  for (const status::WorkerStatus& worker : node.workers)
    places_[worker.rank] = status::describe_place(worker.view);
}

void Endings::note_kill(std::size_t worker, int signal, Milliseconds after) {
  const int rank = plan_->planned.at(worker).rank.value;
  killed_[worker] = {{rank}, {}, signal, after, places_[rank]};
}

std::vector<report::KilledRanks> Endings::killed_ranks() const {
  std::vector<report::KilledRanks> killed;
  for (const auto& [worker, each] : killed_) {
    const auto found = ended_.find(worker);
    const bool obeyed = found != ended_.end() && !was_killed(found->second.status);
    if (!obeyed) killed.push_back(each);
  }
  return report::fold_alike(std::move(killed));
}

std::vector<int> Endings::stopped_ranks() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < plan_->planned.size(); ++i) {
    const auto found = ended_.find(i);
    const bool by_itself =
        found != ended_.end() &&
        (found->second.status.success() ||
         (found->second.failure && report::evidence_of(*found->second.failure) != report::Evidence::stopped));
    if (!by_itself) ranks.push_back(plan_->planned[i].rank.value);
  }
  return ranks;
}

}  // namespace ddprun::workers
