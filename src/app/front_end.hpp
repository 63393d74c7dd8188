// The ddprun a user typed where nothing has been started on the other hosts yet: it starts itself there
// through a remote launcher, stays as the remote launcher's parent and holds a lifeline to every ddprun it
// started.
//
// An agent that has shaken hands is stopped through its lifeline, in order and with its grace; a remote
// launcher is only signalled where no agent of it is there yet, or is still there long after. The agents
// decide about the job; the front end repeats their exit code.
//
// The job is over when every agent has said how it ended or its lifeline is lost; then the remote launchers
// have some seconds, since one that waits for a host that is gone would wait for ever. A remote launcher that
// ends while its agent is connected ends nothing.
//
// Agents are told of every signal once, and whether all processes of this host had it: then a scheduler has
// sent it, which may be about to signal theirs (supervise/signal_ledger.hpp).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/net/lifeline_server.hpp"
#include "ddprun/os/rendezvous_file.hpp"
#include "ddprun/selflaunch/remote_launcher.hpp"
#include "remote_launcher_group.hpp"
#include "signal_watch.hpp"

namespace ddprun {

class FrontEnd {
 public:
  FrontEnd(const SelfLaunchPlan& plan, const Options& options, const Snapshot& snapshot);
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;
  ~FrontEnd();

  // Runs the job to its end and returns the exit code.
  int run();

 private:
  struct RemoteLauncher {
    bool started = false;
    bool settled = false;  // its agent is there, or it has ended, or it has had some seconds
    bool connected = false;
    std::optional<int> code;  // it has ended
  };

  Authenticator make_authenticator_for_agents();
  bool hand_over_key();
  LifelineServer::Hooks make_hooks();
  bool types_for_rank_0() const;
  Environment agent_environment() const;
  std::string make_task(int place) const;

  void tell_of_silence();
  void start_some();
  void start(std::size_t remote_launcher);
  void settle(std::size_t remote_launcher);
  void on_agent(const lifeline::Hello& hello);
  void on_remote_launcher_end(std::size_t remote_launcher, const ExitStatus& status);
  bool could_not_start(std::size_t remote_launcher, const ExitStatus& status) const;

  void watch_signals();
  void on_signal(const SignalEvent& event);
  void on_verdict(const SignalLedger::Verdict& verdict);
  void note_stop_signal(const SignalEvent& event);
  void stop(const lifeline::Signal& signal);
  void release_remote_launchers();
  void give_up_on_remote_launchers(Milliseconds patience, Milliseconds mercy);
  bool is_heard() const;
  void signal_remote_launchers(int number, bool only_unconnected);

  void give_up(int code);
  void expect_end_of_all(std::size_t remote_launcher);
  void finish_when_over();
  void say_if_end_is_unknown() const;
  void drain();
  void leave();
  int exit_code() const;

  const SelfLaunchPlan& plan_;
  const Options& options_;
  const Snapshot& snapshot_;
  boost::asio::io_context context_;
  SignalWatch signals_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer silence_;
  RemoteLauncherGroup group_;
  std::string id_;
  std::string key_;                         // of this launch, as text
  std::optional<RendezvousFile> key_file_;  // where the remote launcher does not pass it
  bool cookie_only_ = false;                // agents have nothing but what others can compute
  LifelineServer server_;
  std::vector<RemoteLauncher> remote_launchers_;
  std::optional<int> stopped_by_;  // the first signal that stops the job
  TimePoint last_stop_signal_;
  std::optional<int> failure_code_;  // a remote launcher could not start its agent, or output was lost
  std::vector<int> told_;            // the agents' exit codes, as they came
  std::vector<std::string> lost_;    // hosts whose agents went without a word
  bool releasing_ = false;           // no agent is left: the remote launchers' time has begun
  bool abandoned_ = false;           // what is still there has had its time
  bool leaving_ = false;
  bool hurried_ = false;  // output that is not read soon is given up
};

}  // namespace ddprun
