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
//
// Behind a slow link all ranks wait for the end of a collective, and each has entered it in time. There the
// kernels' counts tell: of each node the connection that was busy for the longest time (find_busiest), and
// how many bytes it carried meanwhile. A node's link is slow where the rate is less than half of that of the
// other nodes in the middle; it costs the time beyond what its bytes would have taken at their rate, and is
// told by the same rule as a rank. A connection that was not filled is not slow, and is compared with all the
// same: its network carries more than that. Two nodes are enough: what goes one way is compared with what
// comes back.

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

struct SlowLink {
  int agent = 0;     // sends
  double share = 0;  // share of the window
  LinkUse use{};     // its latest
  double usual = 0;  // bytes a second of the other nodes in the middle
};

// Shares of a window's looks by rank, or by agent; a large and steady one is told once.
class Shares {
 public:
  explicit Shares(const options::SlowNotice& notice) : notice_(notice) {}

  void add(TimePoint now, std::map<int, double> shares);
  void forget_old(TimePoint now);
  std::map<int, double> mean() const;
  bool is_whole(TimePoint now) const;  // the window
  TimePoint begin() const { return looks_.front().first; }
  // Returns the largest that is to be told now.
  std::optional<std::pair<int, double>> take(TimePoint now);

 private:
  bool is_steady(int number, double share) const;

  options::SlowNotice notice_;
  std::deque<std::pair<TimePoint, std::map<int, double>>> looks_;
  std::set<int> told_;
};

struct StepTime {
  Milliseconds now{0};
  std::optional<Milliseconds> hour_ago{};
};

class SlowWatch {
 public:
  explicit SlowWatch(const std::optional<options::SlowNotice>& notice)
      : notice_(notice), ranks_(notice.value_or(options::SlowNotice{})), links_(ranks_) {}

  void begin_attempt();
  // Notes what an agent has sent. `agents`: how many take part.
  void note(int agent, int number, NodeTrace trace, std::size_t agents, TimePoint now);

  // Returns the share of the window in which the others waited for each rank; of a quicker one it is 0.
  std::map<int, double> shares() const;
  std::optional<StepTime> step() const;
  // Returns the slowest of the ranks, and of the links, that are to be told now.
  std::optional<SlowRank> take_slow(TimePoint now);
  std::optional<SlowLink> take_slow_link(TimePoint now);
  // Returns the seconds for which the others waited for each rank since the last call, once in a window: the
  // sixteen that cost most, of those that cost a hundredth.
  std::map<int, double> take_seconds(TimePoint now);

 private:
  void judge(TimePoint now);
  void judge_links(TimePoint now);
  void forget_start(NodeTrace& trace, TimePoint now);

  std::optional<options::SlowNotice> notice_;
  int number_ = -1;                                       // number of the look that is being gathered
  std::map<int, NodeTrace> gathered_;                     // traces by agent
  std::optional<TimePoint> counts_from_;                  // entries before do not count
  Shares ranks_, links_;                                  // links: by agent
  std::map<int, SlowLink> slow_links_;                    // the latest of each agent
  std::deque<std::pair<TimePoint, Milliseconds>> steps_;  // steps of an hour
  std::optional<TimePoint> seconds_taken_;
};

// Notice of a rank that the others wait for, with the cause where what is measured of it shows one.

struct SlowNotice {
  std::string what;  // "rank 5 on n2 is slow: the other ranks waited for it 18 % of the last 5 min; ..."
  std::string hint;
  std::string host;
  std::optional<status::WorkerStatus> worker{};  // none: it is of a link
  bool seen_late = false;                        // it was seen while most of the others waited for it
};

// Adds how long the others wait for each rank, and how long a step takes.
void add_waits(status::JobStatus& job, const slow::SlowWatch& watch);

// "the connection from n2 to n3 is slow: ..." `peer`: a name, or the address.
SlowNotice describe_slow_link(const SlowLink& link, const std::string& host, const std::string& peer,
                              Milliseconds window);

// Returns nullopt if the status does not have that rank, or it has ended.
std::optional<SlowNotice> describe_slow(const status::JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window);

}  // namespace ddprun::slow
