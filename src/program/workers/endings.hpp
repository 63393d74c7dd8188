// Ends of this host's workers in the current attempt.
// Each failure is described once, with what shows only on this host, and reported to the coordinator.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/duration.hpp"
#include "inspection/host_condition.hpp"
#include "os/process/process_table.hpp"
#include "plan/finalise.hpp"
#include "report/outcome.hpp"
#include "report/report.hpp"
#include "status/job_status.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

class Endings {
 public:
  // Makes the endings. `settled` is called each time no description is in progress any more. `check`: errors
  // of the GPUs in the kernel's log explain an end.
  Endings(WorkerGroup& workers, std::function<void()> settled, bool check);

  void begin(std::shared_ptr<const plan::LaunchPlan> plan);
  void note_stop(TimePoint now);  // the workers are told to stop
  void note_end(std::size_t worker, const ExitStatus& status, TimePoint now);

  bool settled() const { return pending_ == 0; }
  // Calls the handler once for a failed worker, now or later.
  void when_described(std::size_t worker, std::function<void(const report::Failure&)> handler);

  // Returns, for the answer to a stop, the other failures than the one reported before: those that may have
  // begun it, folded, and the ranks that did not end by themselves.
  std::vector<report::Failure> further(std::optional<GlobalRank> told) const;
  std::vector<int> stopped_ranks() const;
  // The ranks that had ended with success when a stop first was in sight, and how many milliseconds before
  // that or before the first failure here.
  const std::vector<int>& finished_ranks() const { return finished_; }
  const std::vector<int>& finished_ago() const { return finished_ago_; }
  void note_stop_in_sight(TimePoint now);

  // Notes the places of the workers before some are killed, then that one is killed, `after` this signal.
  void note_places(const status::NodeStatus& node);
  void note_kill(std::size_t worker, int signal, Milliseconds after);
  // Returns those that ended by SIGKILL, or have not ended, folded.
  std::vector<report::KilledRanks> killed_ranks() const;

 private:
  struct Ended {
    ExitStatus status;
    TimePoint at;
    bool describing = false;
    std::optional<report::Failure> failure;
    std::vector<std::function<void(const report::Failure&)>> waiting;
  };
  void describe(std::size_t worker, const ExitStatus& status);
  void complete(std::size_t worker, report::Failure failure, bool after_stop);
  void explain_by_gpu(std::size_t worker, report::Failure& failure);

  WorkerGroup& workers_;
  std::function<void()> settled_;
  os::OomWatch memory_;
  std::optional<inspection::KernelLogWatch> kernel_log_;
  std::shared_ptr<const plan::LaunchPlan> plan_ =
      std::make_shared<const plan::LaunchPlan>();  // plan of this attempt
  std::map<std::size_t, Ended> ended_;
  std::optional<TimePoint> trouble_;  // the first failure or the stop
  bool stopped_ = false;
  bool stop_in_sight_ = false;
  std::vector<int> finished_, finished_ago_;
  std::map<int, std::string> places_;  // place of each rank
  std::map<std::size_t, report::KilledRanks> killed_;
  int pending_ = 0;
};

}  // namespace ddprun::workers
