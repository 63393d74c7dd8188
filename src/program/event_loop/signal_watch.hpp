// Signals to this process in the event loop, and the answer to whether the workers have one already.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <vector>

#include "lifecycle/signal_ledger.hpp"
#include "options/options.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/signals.hpp"

namespace ddprun::event_loop {

// Signals that stop the job, and signals that ddprun looks at.

// Returns --signals-to-handle and SIGTERM, which stops whatever else does; else TERM, INT, HUP and QUIT.
std::vector<int> stop_signals_of(const options::Options& options);
bool is_stop_signal(int number, const options::Options& options);
// Reports whether a person sent it, so that a second one means "at once". A scheduler asks several times on
// its way to SIGKILL (Slurm at a time limit: SIGTERM twice, 35 to 165 ms apart; LSF: SIGINT, then SIGTERM),
// and kills by itself when it has waited long enough. Its signals come from its daemon, which is above us.
// Without a scheduler the process above us is a shell or mpiexec, with a person behind it.
bool is_from_person(const os::SignalEvent& event, facts::Scheduler scheduler);
// Returns those, and the others that a launcher has to handle.
std::vector<int> watched_signals_of(const options::Options& options);

class SignalWatch {
 public:
  struct Hooks {
    std::function<void(const os::SignalEvent& event)> on_signal;
    std::function<void(const lifecycle::SignalLedger::Verdict& verdict)> on_verdict;
    std::function<void()> on_done;  // called after one or several of these
  };

  // Watches the signals. `place`: process group of the workers, of which one stands for all. Throws Error.
  SignalWatch(boost::asio::io_context& context, const std::vector<int>& signals, os::ChildGroup place);

  void start(Hooks hooks);
  // Asks for a verdict, which follows soon but not before this returns (SignalLedger::note_signal).
  void judge(int number, lifecycle::SignalWay way, bool maybe_tree);
  void note_worker();             // one was made
  void note_reached(int number);  // the workers have this one, whatever is told of it

  // Ends the watch: calls nothing any more, and leaves the signals blocked.
  void leave();

 private:
  void wait_for_signals();
  void wait_for_canary();
  void settle();
  void arm(TimePoint when);

  boost::asio::io_context& context_;
  os::SignalSource source_;
  os::SignalCanary canary_;
  boost::asio::posix::stream_descriptor source_watch_;
  boost::asio::posix::stream_descriptor canary_watch_;
  boost::asio::steady_timer timer_;
  lifecycle::SignalLedger ledger_;
  Hooks hooks_;
  int looks_at_busy_canary_ = 0;
};

}  // namespace ddprun::event_loop
