// Which agents answer. The kernel keeps the connections of a process that is stopped (SIGSTOP) or waits in
// the kernel (state D), so the coordinator asks each one from time to time whether it runs.
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

  // Anything that came from it. How long it had been silent, where that had been said.
  std::optional<Milliseconds> note_heard(ConnectionId agent, TimePoint now);
  void drop(ConnectionId agent) { agents_.erase(agent); }
  // Asks all at once at the next look.
  void look_at(TimePoint when) { look_at_ = std::min(look_at_.value_or(when), when); }

  // The time of the next look; nothing where nobody is asked.
  std::optional<TimePoint> deadline() const;
  // False: it is too early. What passed while this process did not run itself counts as no silence.
  bool begin_look(TimePoint now);
  std::vector<ConnectionId> asked() const;

  bool is_silent(ConnectionId agent, TimePoint now) const { return silence(agent, now) >= k_silence; }
  Milliseconds silence(ConnectionId agent, TimePoint now) const;
  bool has_been_heard_since(ConnectionId agent, TimePoint moment) const;
  bool takes_silence(ConnectionId agent);  // true once in a silence: it is to be said
  // How long it has been waited for while it was silent: since the first of these calls.
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
