// Times at which agents answered, and which of them are silent.
// The kernel keeps the connections of a process that is stopped (SIGSTOP) or waits in the kernel (state D),
// so the coordinator asks each agent at intervals whether it runs.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/duration.hpp"
#include "rendezvous/client_questions.hpp"

namespace ddprun::rendezvous {

class Answers {
 public:
  static constexpr Milliseconds k_pause{10000};    // between two questions
  static constexpr Milliseconds k_silence{30000};  // after which it is said that an agent does not answer

  // Notes that any message came from the agent. Returns how long it had been silent if that had been
  // reported.
  std::optional<Milliseconds> note_heard(ConnectionId agent, TimePoint now);
  void drop(ConnectionId agent) { agents_.erase(agent); }
  // Asks all at once at the next look.
  void look_at(TimePoint when) { look_at_ = std::min(look_at_.value_or(when), when); }

  // Returns the time of the next look; nothing if no agent is asked.
  std::optional<TimePoint> deadline() const;
  // Returns false if it is too early. Time in which this process itself did not run counts as no silence.
  bool begin_look(TimePoint now);
  std::vector<ConnectionId> asked() const;

  bool is_silent(ConnectionId agent, TimePoint now) const { return silence(agent, now) >= k_silence; }
  Milliseconds silence(ConnectionId agent, TimePoint now) const;
  bool has_been_heard_since(ConnectionId agent, TimePoint moment) const;
  bool takes_silence(ConnectionId agent);  // true once in a silence: it is to be reported
  // Returns how long the silent agent has been waited for: since the first call in a row with `waits`.
  Milliseconds note_waiting(ConnectionId agent, bool waits, TimePoint now);

 private:
  struct Agent {
    TimePoint heard;
    bool told = false;
    std::optional<TimePoint> waited_since;
  };
  std::map<ConnectionId, Agent> agents_;
  std::optional<TimePoint> look_at_;
};

}  // namespace ddprun::rendezvous
