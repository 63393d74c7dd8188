// Plan of the standby interpreters of a host (--standby), as a state machine that calls nothing.
//
// Each worker is asked from time to time which modules it has loaded. Once that is the same twice running, or
// was known from an earlier attempt, its standby interpreter imports them, few at a time so that the training
// does not feel it; and what has been loaded since, whenever that is more. A package whose import does what a
// process that only waits must not do is left out from then on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::lifecycle {

class StandbyPlan {
 public:
  struct Prepare {
    std::size_t worker;
    bool anew;  // false: more modules, in the one that is there
    friend bool operator==(const Prepare&, const Prepare&) = default;
  };

  static constexpr Milliseconds k_first_look{2000}, k_usual_look{60'000}, k_rare_look{600'000};
  static constexpr Milliseconds k_longest_import{900'000};
  static constexpr int k_looks_alike = 5;    // after so many looks that are alike they are rare
  static constexpr int k_most_failures = 8;  // failures of one worker; then none is prepared any more

  explicit StandbyPlan(std::size_t at_once) : at_once_(at_once) {}

  void begin_attempt(std::size_t workers, TimePoint now);
  // Notes the number of modules that each worker has loaded; 0: it has not answered.
  void note_modules(const std::vector<std::size_t>& counts);
  void note_ready(std::size_t worker);
  void note_taken(std::size_t worker);  // also if it did not fit
  // Notes that it has ended by itself, because of this package if one is named.
  void note_unfit(std::size_t worker, const std::string& package);

  void give_up(std::size_t worker);  // none is prepared in this attempt any more

  // Takes the preparations to be begun now: they count as begun.
  std::vector<Prepare> take_due(TimePoint now);
  // Returns the workers whose interpreter has imported for k_longest_import: to be ended and given up.
  std::vector<std::size_t> overdue(TimePoint now) const;
  // Returns the time of the next look, sooner if a worker has not answered yet, as on a busy host; one that
  // has not in k_rare_look never may.
  TimePoint next_look(TimePoint now) const;
  bool is_settled(std::size_t worker) const { return workers_.at(worker).settled; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  enum class State { none, importing, ready };
  struct Worker {
    State state = State::none;
    std::size_t last = 0;       // modules, as of the look before
    std::size_t known = 0;      // the most so far, in any attempt
    std::size_t imported = 0;   // modules that its standby interpreter was given
    TimePoint begun{};          // begin of the import
    bool known_before = false;  // from an earlier attempt
    bool settled = false;
    bool given_up = false;
    int failures = 0;
  };
  static bool note_modules(Worker& worker, std::size_t count);

  std::size_t at_once_;
  std::vector<Worker> workers_;
  std::vector<std::string> left_out_;
  TimePoint began_{};
  int alike_ = 0;
  bool silent_ = false;  // some worker has not answered in this attempt
};

}  // namespace ddprun::lifecycle
