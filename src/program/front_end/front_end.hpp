// The ddprun that a user started before anything runs on the other hosts: the self-launch front end.
// It starts itself there through a remote launcher, stays as the remote launcher's parent and holds a
// lifeline to every ddprun it started.
//
// SelfLaunch (selflaunch/self_launch.hpp) decides what it does and when. Here its actions are carried out:
// processes, connections, signals and the timer are here, and the agents' tasks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "event_loop/signal_watch.hpp"
#include "front_end/remote_launcher_group.hpp"
#include "net/lifeline_sockets.hpp"
#include "os/files/rendezvous_file.hpp"
#include "probes/grace_search.hpp"
#include "selflaunch/remote_launcher.hpp"
#include "selflaunch/self_launch.hpp"

namespace ddprun::front_end {

class FrontEnd {
 public:
  FrontEnd(const selflaunch::SelfLaunchPlan& plan, const options::Options& options,
           const facts::Snapshot& snapshot);
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;
  ~FrontEnd();

  // Runs the job to its end and returns the exit code.
  int run();
  // Returns what it has reported first itself, unless an agent had reported a failure by then.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  rendezvous::Authenticator make_authenticator_for_agents();
  bool hand_over_key();
  net::LifelineServer::Hooks make_hooks();
  bool types_for_rank_0() const;
  facts::Environment agent_environment() const;
  std::string make_task(int place) const;

  void watch_signals();
  void on_signal(const os::SignalEvent& event);
  void on_remote_launcher_end(std::size_t remote_launcher, const ExitStatus& status);
  void set_timer();

  void carry_out(const selflaunch::SelfLaunch::Actions& actions);
  void carry_out(const selflaunch::Start& action);
  void carry_out(const selflaunch::SignalRemoteLauncher& action);
  void carry_out(const selflaunch::SignalAgents& action);
  void carry_out(const selflaunch::Judge& action);
  void carry_out(const selflaunch::Say& action);
  void carry_out(const selflaunch::Drain& action);
  void carry_out(const selflaunch::CountLosses& action);
  void carry_out(const selflaunch::Leave& action);

  const selflaunch::SelfLaunchPlan& plan_;
  const options::Options& options_;
  const facts::Snapshot& snapshot_;
  boost::asio::io_context context_;
  event_loop::SignalWatch signals_;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> timer_due_;  // time that timer_ is set to
  RemoteLauncherGroup group_;
  std::string id_;
  std::string key_;                             // key of this launch, as text
  std::optional<os::RendezvousFile> key_file_;  // set if the remote launcher does not pass the key
  bool key_told_ = false;                       // the wait that ^C begins has been reported
  bool cookie_only_ = false;                    // agents have nothing but what others can compute
  net::LifelineServer server_;
  selflaunch::SelfLaunch launch_;
  probes::GraceSearch grace_;
  std::optional<Error> failure_;
  int code_ = k_exit_own_failure;
};

}  // namespace ddprun::front_end
