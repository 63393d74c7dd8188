// Request to the scheduler to run the job again (--requeue), by the agent that reports the job's end.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/job_files.hpp"
#include "agent/plans.hpp"
#include "rendezvous/message.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

class Requeue {
 public:
  // Decides before the report. `warned`: the workers had the signal of --signal-before-end.
  void decide(const rendezvous::Finish& finish, const Plans& plans, bool warned);
  // Returns what the report says of it; nullopt if nothing is to be done.
  const std::optional<report::Requeuing>& state() const { return state_; }
  int restarts() const { return restarts_; }  // number of times that the scheduler had started the job before
  // Asks the scheduler once all is written, since it ends the job at once. Shows what it does; waits for the
  // answer, ten seconds at most, and corrects the file of --report if it is a refusal.
  void ask(const Plans& plans, std::int64_t began, JobFiles& files);

 private:
  std::optional<report::Requeuing> state_;
  std::string hint_;
  std::string job_;  // its name for the scheduler
  int restarts_ = 0;
  std::optional<rendezvous::Finish> finish_;
};

}  // namespace ddprun::agent
