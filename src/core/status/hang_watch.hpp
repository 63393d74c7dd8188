// Watch for signs of life of the ranks of one host.
// A state machine that calls nothing: its input is looks at the ranks.
//
// A rank that waits in a collective shows none, whatever it prints and however much CPU it uses: it last
// lived when it entered that collective. Any other rank lives when it writes output, touches its progress
// file, enters or completes a collective, reads or writes k_busy_io a second, or has children (data loaders,
// compilers) that are busy; and when it is busy itself while it is known to be in no collective, or in the
// first minutes, when torch is imported. Busy means a tenth of a CPU, or half of a rank's share if more than
// five ranks share one; time that it waits for a CPU, since others use all of them, counts for it. Traffic
// with the store is no sign: NCCL's monitor asks it once a second in a job that hangs too.
//
// The host is quiet once each of its running ranks has shown nothing for the time-out. With `auto` that is
// learned: ten times the longest time without a sign on this host in what ran so far, five minutes at least,
// and nothing is quiet in the first ten minutes of an attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/duration.hpp"
#include "options/fault_options.hpp"
#include "status/job_status.hpp"

namespace ddprun::status {

// Signs of a rank in one look.
struct Signs {
  bool running = false;
  std::optional<Milliseconds> output_age{};
  std::optional<Milliseconds> progress_age{};    // since it touched its DDPRUN_PROGRESS_FILE
  std::optional<Milliseconds> collective_age{};  // since it entered its newest collective
  std::optional<bool> waits{};                   // in a collective; nullopt: not known
  std::uint64_t nccl_started = 0;                // collectives so far, where only NCCL's RAS tells
  std::uint64_t io_bytes = 0;                    // read and written by it and its children so far
  Milliseconds own_cpu{0}, children_cpu{0};      // used so far
  Milliseconds cpu_wait{0};                      // waited for a CPU so far
};

class HangWatch {
 public:
  static constexpr std::uint64_t k_busy_io = 1 << 20;  // bytes a second
  static constexpr Milliseconds k_learning{600'000}, k_least_learned{300'000};
  static constexpr int k_times_longest = 10;
  static constexpr double k_busy = 0.1, k_busy_of_share = 0.5;  // CPUs
  static constexpr Milliseconds k_start{300'000};  // start of an attempt: imports, torch cannot be asked yet

  explicit HangWatch(const options::HangTimeout& timeout) : timeout_(timeout) {}

  // Begins an attempt. `share`: CPUs that this host has for each of its ranks.
  void begin(std::size_t workers, double share, TimePoint now);
  // Notes a look. `counted`: when its use and its reads so far were counted, before the rest.
  void note(std::size_t worker, const Signs& signs, TimePoint counted, TimePoint now);

  // Returns how long all running ranks have shown nothing; nullopt while one does, or while none runs.
  std::optional<Milliseconds> quiet_for(TimePoint now) const;
  // Returns when the next look is due after one that began at `began`: when the time-out would be over, else
  // a tenth of it later, a twentieth if it is half a minute or less. When between two looks CPU was used is
  // not known, so that a busy rank is held to have lived until the second one, and the verdict comes later by
  // that; but each look wakes agents about four times, where one time a second is promised. Looks are a
  // second apart at least, three times as far as this one took, and so far that what they cost a rank does
  // not look busy; at most 30 seconds, and a quarter of the time-out if that is more than a second.
  TimePoint next_look(TimePoint began, TimePoint now) const;
  Milliseconds limit() const;  // limit learned so far

 private:
  struct Rank {
    Signs last{};
    bool seen = false;
    TimePoint counted{}, lived{};
  };
  void live(Rank& rank, TimePoint when);
  bool is_busy(const Rank& rank, const Signs& signs, TimePoint counted) const;
  std::optional<TimePoint> last_life() const;

  options::HangTimeout timeout_;
  std::vector<Rank> ranks_;
  double busy_ = k_busy;  // CPUs
  TimePoint began_{};
  TimePoint lived_{};        // the newest sign of any rank
  Milliseconds longest_{0};  // longest time without a sign
};

// The signs of life in what a look shows of a worker.

status::Signs signs_of(const WorkerStatus& worker);

}  // namespace ddprun::status
