// Decision whether a signal to this agent has to be passed on to its workers, or they have it already.
//
// A signal comes in three ways: to this process itself, from the ddprun that started it (lifeline), or from
// the coordinator. And who sends it to this process may send it to every process below it too: slurmstepd
// with proctrack/linuxproc and systemd do, mpiexec, kill and slurmstepd with proctrack/cgroup do not, and
// `scancel --batch` does not although the sender is the same. So the sender does not tell. What tells is a
// process that sits where the workers sit and only notes what it gets (os/process/helper_child.hpp):
//
//   own signal   waits for the canary: `canary_wait`, or `tree_wait` if it was sent by a process above this
//                one, which on a busy machine needs that long from the first process of a tree to the last.
//                Hit: the workers have it. Not hit: it is passed on.
//   told signal  says whether the whole tree was hit where it came from. If so, the scheduler is about to
//                signal this host too: it waits `host_wait` for the canary here. If not, it is passed on at
//                once.
//
// The same signal by two ways within `host_wait` is one signal; by one way twice it is two. A canary's word
// counts for one signal, and for `canary_memory` where it comes before the signal itself: the order in which
// the processes of a tree are hit is not known.
//
// The canary is older than the workers, so for `start_lag` after the newest of them was made its word proves
// nothing: who signals a tree looks through it first, and may have missed them. Then the signal is passed on:
// twice is better than never.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::lifecycle {

// Filter of repeated signals that are sent to a worker directly.
// One end of a job is one signal to a worker, from any sender and however often. Otherwise a handler that
// writes a checkpoint would begin a second one in the middle of the first.
class RepeatedSignals {
 public:
  // Makes a filter. `stops`: the signals that ask to end. `grace`: time that a worker has for its end, from
  // the first of them on.
  RepeatedSignals(std::vector<int> stops, Milliseconds grace) : stops_(std::move(stops)), grace_(grace) {}

  // Reports whether the worker gets this signal: any other one, and each request to end once within the
  // grace.
  bool passes(int number, TimePoint now) {
    if (std::find(stops_.begin(), stops_.end(), number) == stops_.end()) return true;
    const auto [entry, first] = passed_.try_emplace(number, now);
    if (!first && now - entry->second < grace_) return false;
    entry->second = now;
    return true;
  }

 private:
  std::vector<int> stops_;
  Milliseconds grace_;
  std::map<int, TimePoint> passed_;
};

// Within this a second stop signal is the first again: a terminal and mpiexec both pass on one ^C.
inline constexpr Milliseconds k_same_signal_window{100};

enum class SignalWay { own, front_end, coordinator };

class SignalLedger {
 public:
  struct Times {
    Milliseconds canary_wait{20};
    Milliseconds tree_wait{100};
    Milliseconds canary_memory{200};
    Milliseconds host_wait{1000};
    Milliseconds start_lag{100};
  };
  struct Verdict {
    int number = 0;
    bool pass_on = false;
    bool whole_tree = false;  // the workers have it from its sender
    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  SignalLedger() : SignalLedger(Times{}) {}
  explicit SignalLedger(const Times& times) : times_(times) {}

  void note_worker(TimePoint now);  // one was made
  void note_canary(int number, TimePoint now);
  // Notes a signal. `maybe_tree`: an own signal was sent by a process above this one; for a told one, the
  // workers of the teller's host had it from its sender.
  void note_signal(int number, SignalWay way, bool maybe_tree, TimePoint now);

  // Returns the verdicts since the last call, each signal once, in the order in which they came.
  std::vector<Verdict> decide(TimePoint now);
  std::optional<TimePoint> deadline() const;  // when decide() wants to be called

 private:
  struct Entry {
    int number;
    std::vector<SignalWay> ways;
    TimePoint since;
    TimePoint until;
    bool settled = false;
  };
  struct Hit {
    int number;
    TimePoint at;
  };

  bool join(int number, SignalWay way, TimePoint now);
  bool take_hit(const Entry& entry);
  void forget(TimePoint now);

  Times times_;
  std::vector<Entry> entries_;
  std::vector<Hit> hits_;
  std::optional<TimePoint> newest_worker_;
};

}  // namespace ddprun::lifecycle
