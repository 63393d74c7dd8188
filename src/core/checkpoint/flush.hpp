// Flush of checkpoints from the nodes' memory to a folder that all nodes share.
// Each rank's part is written by an agent that has it, by its owner while that is here; once all are written
// one agent publishes the step, by a rename. If an agent is lost meanwhile, another one that has the part
// writes it. From time to time the newest complete step is flushed; once the job ends, at once, and again if
// a newer one is complete by then.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "base/duration.hpp"
#include "checkpoint/register.hpp"

namespace ddprun::checkpoint {

class Flush {
 public:
  // `wanted`: there is a folder. `every`: nullopt if only the end of the job counts. `number`: that of
  // flushes before the first attempt.
  Flush(bool wanted, std::optional<Milliseconds> every, int number = 0)
      : wanted_(wanted), every_(every), next_number_(number) {}

  // Notes an attempt that starts from this step: a flush of a newer one is over. `number`: that of those that
  // begin in it.
  void begin_attempt(int number, std::int64_t from, TimePoint now);
  // Notes that the job ends: only the newest step counts any more.
  void begin_end(const Register& known);
  // Notes when the job ends: the newest step is flushed `k_before_end` before that, as what is saved by then
  // may not be written between the scheduler's SIGTERM and its SIGKILL.
  static constexpr Milliseconds k_before_end{180'000};
  void note_job_end(TimePoint end);
  void look(const Register& known, TimePoint now);

  std::optional<Saved> running() const { return running_; }
  // Notes that all in memory goes on from this step of the folder.
  void note_start(const Saved& published) { published_ = published; }
  // Reports whether memory is known to be of the same history as this step: as it was noted, or published
  // here.
  bool is_same_history(const Saved& published) const { return published_ == published; }
  int number() const { return number_; }
  const std::map<int, AgentIndex>& asked() const { return asked_; }  // agents that write the parts, by rank
  std::vector<int> ranks_of(AgentIndex agent) const;  // ranks whose parts of it the agent writes
  bool is_written() const { return running_ && written_.size() == static_cast<std::size_t>(running_->world); }
  std::set<AgentIndex> awaited() const;
  std::optional<TimePoint> due() const;  // the next look at the time

 private:
  bool assign(const Register& known);

  bool wanted_;
  std::optional<Milliseconds> every_;
  bool ending_ = false, is_due_ = false;
  std::optional<TimePoint> due_, job_end_, before_end_;
  std::optional<Saved> running_, published_;
  int next_number_, number_ = 0;
  std::map<int, AgentIndex> asked_;  // agents by rank
  std::set<int> written_;            // ranks
};

}  // namespace ddprun::checkpoint
