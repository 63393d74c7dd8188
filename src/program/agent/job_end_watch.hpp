// The end of the job: workers are warned in time, it is requeued, and the agent reports.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_files.hpp"
#include "agent/link_settings.hpp"
#include "facts/snapshot.hpp"
#include "lifecycle/end_watch.hpp"
#include "probes/child_query.hpp"
#include "rendezvous/message.hpp"
#include "report/report.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

// Request to the scheduler to run the job again (--requeue), by the agent that reports the job's end.
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

// Gives the signal of --signal-before-end to this host's workers.
// Each main process gets it once, as soon as it handles it.
class WarnedWorkers {
 public:
  struct Hooks {
    std::function<bool(std::size_t worker)> runs;
    std::function<void(int signal)> sent;  // to a worker
  };
  WarnedWorkers(boost::asio::io_context& context, const Plans& plans, workers::WorkerGroup& workers,
                Hooks hooks);

  void begin(int signal);  // begins with the workers of the current attempt
  void end();              // ends with the attempt, or when it is stopped

 private:
  void look();
  lifecycle::PendingWarning::Worker state_of(std::size_t worker) const;
  void tell_deaf(const std::vector<std::size_t>& workers) const;

  const Plans& plans_;
  workers::WorkerGroup& workers_;
  Hooks hooks_;
  boost::asio::steady_timer timer_;
  lifecycle::PendingWarning pending_;
  int signal_ = 0;
};

class JobEndWatch {
 public:
  struct Hooks {
    std::function<void(TimePoint end)> know;
    std::function<void(int signal)> warn;  // all workers, of this attempt and of later ones
  };
  JobEndWatch(boost::asio::io_context& context, const Plans& plans, Hooks hooks);

  void begin();  // the workers start; once for all attempts
  void end();    // ends with the job
  bool warned() const { return watch_.warned(); }

 private:
  void carry_out(const lifecycle::EndWatch::Actions& actions);
  void carry_out(const lifecycle::EndWatch::Ask& action);
  void carry_out(const lifecycle::EndWatch::Know& action);
  void carry_out(const lifecycle::EndWatch::Warn& action);
  void carry_out(const lifecycle::EndWatch::SayUnknown& action);
  void note_answer(std::optional<Milliseconds> left);
  void arm_timer();

  boost::asio::io_context& context_;
  const Plans& plans_;
  Hooks hooks_;
  lifecycle::EndWatch watch_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<probes::ChildQuery> query_;  // under way
};

// Report of an agent at the end: to the user, to the file of --report, and to a launcher around it.

// Returns the text for people; writes the file of --report. `began`: Unix time in milliseconds.
std::string report_end(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                       const Requeue& requeue, JobFiles& files);
// Writes the file of --report alone.
// Renders the job's end as --report has it.
std::string render_report_json(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                               const Requeue& requeue);
void write_report(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                  const Requeue& requeue, JobFiles& files);
// Writes the root cause for torchrun around ddprun, in its own format.
void tell_outer_launcher(const report::Cause& cause, JobFiles& files);

}  // namespace ddprun::agent
