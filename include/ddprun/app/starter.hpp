// The ddprun a user typed where nothing has been started on the other hosts yet: it starts itself there
// through a carrier, stays as the carrier's parent and holds a lifeline to every ddprun it started.
//
// An agent that has shaken hands is stopped through its lifeline, in order and with its grace; a carrier is
// only signalled where no agent of it is there yet, or is still there long after. The agents decide about the
// job; the starter repeats their exit code.
//
// The job is over when every agent has said how it ended or its lifeline is lost; then the carriers have some
// seconds, since one that waits for a host that is gone would wait for ever. A carrier that ends while its
// agent is connected ends nothing.
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

#include "ddprun/app/carrier_group.hpp"
#include "ddprun/app/signal_watch.hpp"
#include "ddprun/net/lifeline_server.hpp"
#include "ddprun/os/meeting_file.hpp"
#include "ddprun/plan/carrier.hpp"

namespace ddprun {

class Starter {
 public:
  Starter(const CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;
  ~Starter();

  // Runs the job to its end and returns the exit code.
  int run();

 private:
  struct Carrier {
    bool started = false;
    bool settled = false;  // its agent is there, or it has ended, or it has had some seconds
    bool connected = false;
    std::optional<int> code;  // it has ended
  };

  Prover make_prover_for_agents();
  bool hand_over_key();
  LifelineServer::Hooks make_hooks();
  bool types_for_rank_0() const;
  Environment agent_environment() const;
  std::string make_task(int place) const;

  void tell_of_silence();
  void start_some();
  void start(std::size_t carrier);
  void settle(std::size_t carrier);
  void on_agent(const lifeline::Hello& hello);
  void on_carrier_end(std::size_t carrier, const ExitStatus& status);
  bool could_not_start(std::size_t carrier, int code) const;

  void watch_signals();
  void on_signal(const SignalEvent& event);
  void on_verdict(const SignalLedger::Verdict& verdict);
  void note_stop_signal(const SignalEvent& event);
  void stop(const lifeline::Signal& signal);
  void release_carriers();
  void give_up_on_carriers(Milliseconds patience, Milliseconds mercy);
  bool is_heard() const;
  void signal_carriers(int number, bool only_unconnected);

  void give_up(int code);
  void expect_end_of_all(std::size_t carrier);
  void finish_when_over();
  void say_if_end_is_unknown() const;
  void drain();
  void leave();
  int exit_code() const;

  const CarrierPlan& plan_;
  const Options& options_;
  const Snapshot& snapshot_;
  boost::asio::io_context context_;
  SignalWatch signals_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer silence_;
  CarrierGroup group_;
  std::string id_;
  std::string key_;                      // of this launch, as text
  std::optional<MeetingFile> key_file_;  // where the carrier does not pass it
  bool cookie_only_ = false;             // agents have nothing but what others can compute
  LifelineServer server_;
  std::vector<Carrier> carriers_;
  std::optional<int> stopped_by_;  // the first signal that stops the job
  TimePoint last_stop_signal_;
  std::optional<int> failure_code_;  // a carrier could not start its agent, or output was lost
  std::vector<int> told_;            // the agents' exit codes, as they came
  std::vector<std::string> lost_;    // hosts whose agents went without a word
  bool releasing_ = false;           // no agent is left: the carriers' time has begun
  bool abandoned_ = false;           // what is still there has had its time
  bool leaving_ = false;
  bool hurried_ = false;  // output that is not read soon is given up
};

}  // namespace ddprun
