// Watch for ranks that the others wait for, over minutes, and the notice of one with its cause.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/duration.hpp"
#include "options/fault_options.hpp"
#include "slow/trace.hpp"
#include "status/job_status.hpp"

namespace ddprun::slow {

// Watch for ranks that the others wait for, over minutes.
// A state machine that calls nothing: its input is what the agents send of their ranks' collectives.
//
// All agents look at the same moments (Look::number), so that their short records overlap; a look is judged
// once all have sent theirs, or when the next one begins. A rank is slow when the others waited for it
// (waits.hpp) for the share of --slow-notice of its window, and in most looks for half of that share at
// least: a disturbance of one minute is over before its notice would be read. It is told once, and again
// only after it was at half of the share. What is entered in the first tenth of the window after the first
// collectives, when caches fill and kernels are compiled, does not count.

// Returns the time from one look to the next: a tenth of the window, from one second to 30, and more the more
// agents the coordinator hears. Measured with torch 2.13: a look takes 0.07 s of CPU of each rank, in a
// thread of C++ that does without the interpreter.
Milliseconds look_interval(const options::SlowNotice& notice, int agents);
// Returns how many of a rank's newest collectives are sent: fewer where a job has many ranks.
std::size_t entries_wanted(int world_size);

struct SlowRank {
  int rank = 0;
  double share = 0;  // share of the window
  int places = 0;    // looks at where it is so far
  int look = -1;     // look at the collectives after which the last one was
};

struct StepTime {
  Milliseconds now{0};
  std::optional<Milliseconds> hour_ago{};
};

class SlowWatch {
 public:
  explicit SlowWatch(const std::optional<options::SlowNotice>& notice) : notice_(notice) {}

  void begin_attempt();
  // Notes what an agent has sent. `agents`: how many take part.
  void note(int agent, int number, NodeTrace trace, std::size_t agents, TimePoint now);

  // Returns the share of the window in which the others waited for each rank; of a quicker one it is 0.
  std::map<int, double> shares() const;
  std::optional<StepTime> step() const;
  // Returns the slowest of the ranks that are to be told now.
  std::optional<SlowRank> take_slow(TimePoint now);
  // Returns the seconds for which the others waited for each rank since the last call, once in a window: the
  // sixteen that cost most, of those that cost a hundredth.
  std::map<int, double> take_seconds(TimePoint now);

 private:
  void judge(TimePoint now);
  void forget_start(NodeTrace& trace, TimePoint now);
  bool is_whole(TimePoint now) const;  // the window
  bool is_steadily_slow(int rank, double share) const;

  std::optional<options::SlowNotice> notice_;
  int number_ = -1;                       // number of the look that is being gathered
  std::map<int, NodeTrace> gathered_;     // traces by agent
  std::optional<TimePoint> counts_from_;  // entries before do not count
  std::deque<std::pair<TimePoint, std::map<int, double>>> looks_;  // shares by rank, of one window
  std::deque<std::pair<TimePoint, Milliseconds>> steps_;           // steps of an hour
  std::set<int> told_;
  std::optional<TimePoint> seconds_taken_;
};

// Notice of a rank that the others wait for, with the cause where what is measured of it shows one.

struct SlowNotice {
  std::string what;  // "rank 5 on n2 is slow: the other ranks waited for it 18 % of the last 5 min; ..."
  std::string hint;
  std::string host;
  status::WorkerStatus worker{};
  bool seen_late = false;  // it was seen while most of the others waited for it
};

// Adds how long the others wait for each rank, and how long a step takes.
void add_waits(status::JobStatus& job, const slow::SlowWatch& watch);

// Returns nullopt if the status does not have that rank, or it has ended.
std::optional<SlowNotice> describe_slow(const status::JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window);

}  // namespace ddprun::slow
