// The worker processes of this host's current attempt: carries out what the supervisor decides.
//
// A worker has ended when its main process has. It keeps its number until the attempt is over, so that its
// group can be signalled safely all the time; then everything is reaped at once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/program.hpp"
#include "facts/snapshot.hpp"
#include "facts/stuck_process.hpp"
#include "inspection/node_usage.hpp"
#include "lifecycle/signal_ledger.hpp"
#include "os/files/rendezvous_file.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/child.hpp"
#include "os/process/reaper.hpp"
#include "os/process/spawn.hpp"
#include "os/terminal/terminal.hpp"
#include "plan/finalise.hpp"
#include "rendezvous/lifeline.hpp"
#include "report/outcome.hpp"
#include "status/job_status.hpp"
#include "streams/input_pump.hpp"
#include "workers/inspection.hpp"
#include "workers/standbys.hpp"
#include "workers/watchdog.hpp"
#include "workers/worker_outputs.hpp"

namespace ddprun::workers {

class WorkerGroup {
 public:
  // `ended`: a main process has ended, or could not be started.
  using Ended = std::function<void(std::size_t worker, const ExitStatus& status)>;

  WorkerGroup(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
              const facts::Snapshot& snapshot, Ended ended);
  // Reports whether a line of ours would come neither behind an unfinished one of a worker's nor into a
  // terminal that a worker has.
  bool at_line_start() const { return (!terminal_ || workers_.empty()) && outputs_.at_line_start(); }
  WorkerOutputs& outputs() { return outputs_; }
  const WorkerOutputs& outputs() const { return outputs_; }
  // Adds another host's output, from which `begun` was read already.
  void add_gathered(const rendezvous::lifeline::Output& from, os::Fd socket, std::string_view begun) {
    outputs_.add_gathered(from, std::move(socket), terminal_.has_value(), begun);
  }
  static os::ChildGroup group_of_workers(const plan::NodeProposal& node);
  void remove_at_end(const os::RendezvousFile& file) { reaper_.remove_at_end(file.path(), file.text()); }
  void note_link(int socket, bool open) { open ? reaper_.note_link(socket) : reaper_.forget_link(socket); }
  // A process that is no worker's, and none of os::running_helpers().
  void spare(int helper) { helpers_.push_back(helper); }
  void spare_no_more(int helper) { std::erase(helpers_, helper); }
  status::NodeStatus status() const;        // status of this attempt, except what has to be measured
  inspection::WorkerPlaces places() const;  // places where more can be measured
  int world_size() const { return plan_->assignment.world_size; }

  void begin_attempt(std::shared_ptr<const plan::LaunchPlan> plan, const std::string& interface,
                     const std::string& local_store);
  bool start(std::size_t worker);  // false: it could not be started, and `ended` was called; never throws
  void signal(std::size_t worker, int number);
  void continue_stopped(std::size_t worker);  // SIGCONT to its group, if its main process is stopped
  void kill_group(std::size_t worker);
  // Signals everything below us except the main processes; returns how many there were.
  std::size_t signal_descendants(int number);
  std::size_t count_descendants();
  void end_attempt();  // every main process has ended: give their numbers back
  // Abandons the attempt, which is over while a main process is still there, and stays so: nothing is waited
  // for any more.
  void abandon();
  // Theirs, read once: at a failure the file system may be what has failed.
  const facts::PythonFacts& python() const;
  // Reports whether a worker, or a process that it has started, has mapped a file whose path contains `name`.
  bool has_loaded(std::string_view name) const;
  // Reports whether a worker of this attempt has touched its DDPRUN_PROGRESS_FILE.
  bool made_progress() const;
  // Report one that SIGKILL has not ended `after` it; and processes that the workers left behind.
  facts::StuckProcess tell_stuck(std::size_t worker, Milliseconds after);
  void tell_left_behind(Milliseconds after);
  // Reports the processes that the workers have left running and that are about to be stopped, but for
  // helpers of Python.
  void tell_survivors() const;

  // Calls once what the worker has written is read, or shortly after its end where its descendants write on;
  // never waits for the reader of our output.
  void describe_failure(std::size_t worker, const ExitStatus& status,
                        std::function<void(report::Failure)> handler);
  void answer_held_signals();  // after SIGCHLD, first: of workers whose signals wait for it
  void look_for_ends();        // after SIGCHLD: of workers, and of orphans that came to us
  void
  look_for_stops();  // after SIGCHLD: ^Z at a terminal lent to a worker, and one that wants to be lent it
  void stop_all();   // SIGSTOP, before we are stopped
  void note_continued();  // we are: the terminal is lent again if we have it
  void continue_all();    // SIGCONT
  // Reports whether the terminal is gone, and a worker had it: the kernel has sent it SIGHUP.
  bool is_hung_up_with_worker() const;
  bool had_terminal(std::size_t worker) const { return workers_[worker]->had_terminal; }  // when it ended
  int pid(std::size_t worker) const;  // 0: it has none any more
  // Returns the standby interpreters (--standby) for the workers of the next attempt; nullptr if not asked
  // for.
  Standbys* standbys() { return standbys_ ? &*standbys_ : nullptr; }
  // Starts a standby interpreter as this worker has been started, or would be by `expected` before the first
  // start; throws Error.
  void start_standby(std::size_t worker, const plan::LaunchPlan& expected);
  // Returns the way in which a worker was started, if standby interpreters are kept: "by a standby
  // interpreter".
  const std::string& how_started(std::size_t worker) const { return workers_[worker]->started; }
  // Returns the beginning of the paths of files that show where it is (workers/inspection.hpp); empty: none
  // do.
  std::string inspect_prefix(std::size_t worker) const;
  void dismiss_reaper();

 private:
  struct Worker {
    std::optional<os::Child> child;
    std::optional<ExitStatus> status;
    std::optional<lifecycle::RepeatedSignals> held_signals;  // signals that wait for answer_held_signals()
    std::string error_file;
    std::string started;  // how_started()
    bool ended = false;
    bool has_terminal = false;
    bool had_terminal = false;  // had the terminal when it ended
    bool stopped = false;       // set by stop_all()
  };

  static bool lends_terminal(const plan::NodeProposal& node);
  void follow_stop(Worker& worker, int signal);
  void lend_terminal(Worker& worker);
  void take_terminal(Worker& worker);
  bool is_typed_for(std::size_t worker) const;
  WorkerStreams open_streams(std::size_t worker);
  void open_input(std::size_t worker, WorkerStreams& streams);
  os::SpawnRequest make_request(const plan::LaunchPlan& plan, std::size_t worker,
                                const WorkerStreams& streams, const std::string& error_file) const;
  std::optional<ExitStatus> try_start(std::size_t worker);  // returns a failure; throws what set-up throws
  void begin_standbys();
  bool take_standby(std::size_t worker, const os::SpawnRequest& request);  // false: there is none that fits
  void hold_signals(Worker& worker) const;
  void expect_binding(std::size_t worker);
  void look_at_bindings();
  void look_soon();
  void tell_foreign_proc();
  void begin_watchdog();
  void begin_inspection(const plan::LaunchPlan& plan);
  bool is_inspected(const plan::PlannedWorker& worker) const;
  std::string inspect_prefix(const plan::LaunchPlan& plan, std::size_t worker) const;
  void end_expired(const lifecycle::WatchdogTimers::Expired& expired);
  void tell_refusal(std::size_t worker, const os::BindingRefusal& refusal);
  void show_binding(std::size_t worker, const os::BindingRefusal& refusal);
  void note_end(std::size_t worker);
  std::vector<int> main_processes() const;
  std::size_t signal_groups(int number);
  std::string attempt_folder(Attempt attempt) const;
  std::string progress_file(std::size_t worker) const;
  std::string read_error_file(const Worker& worker) const;
  std::vector<output::LogIndexEntry> index_entries() const;
  std::vector<std::string> crash_lines(std::size_t worker, const ExitStatus& status) const;
  std::string describe_environment(std::size_t worker) const;

  boost::asio::io_context& context_;
  std::shared_ptr<const plan::NodeProposal> node_;
  const facts::Snapshot& snapshot_;
  Ended ended_;
  std::string agent_id_;
  std::vector<std::string> folder_places_;
  os::Reaper reaper_;  // made before the folder that it is to remove
  os::TempDir folder_;
  std::optional<Inspection> inspection_;
  os::Fd ras_keeper_;  // bound without listening, so that no other program gets the port
  int ras_port_ = 0;   // port of NCCL's RAS on 127.0.0.1; 0: not chosen by us
  WorkerOutputs outputs_;
  std::optional<os::Terminal> terminal_;
  std::optional<streams::InputPump> input_;
  std::vector<int> helpers_;
  std::optional<Standbys> standbys_;
  TimePoint take_until_;
  std::vector<int> inherited_;
  std::vector<int> ignored_signals_;
  std::optional<std::uint64_t> open_files_;  // the workers' limit

  mutable std::optional<facts::PythonFacts> python_;

  std::shared_ptr<const plan::LaunchPlan> plan_ =
      std::make_shared<const plan::LaunchPlan>();  // plan of this attempt
  std::string interface_;
  std::string local_store_;  // address of this host's relay to the store; empty: there is none
  std::vector<std::unique_ptr<Worker>> workers_;

  std::optional<Watchdog> watchdog_;  // runs in this attempt

  boost::asio::steady_timer binding_timer_;
  std::deque<std::size_t> unseen_;  // started, and what the kernel made of their bindings not yet looked at
  TimePoint unseen_until_;
  std::size_t presumed_left_ = 0;   // set where processes cannot be counted
  bool foreign_proc_told_ = false;  // once for all attempts
  bool cpu_refusal_told_ = false;   // once for all workers and attempts
  bool memory_refusal_told_ = false;
};

}  // namespace ddprun::workers
