// Checkpoints in the nodes' memory, as the coordinator knows them (checkpoint/register.hpp).
// It has what each agent is told, and the end of the job while the newest one is being flushed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/flush.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/coordinator_settings.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rendezvous {

class Checkpoints {
 public:
  using Restores = std::map<AgentIndex, std::optional<checkpoint::Restore>>;
  using Orders = std::vector<std::pair<AgentIndex, checkpoint::Order>>;

  // `own`: the agent that coordinates.
  Checkpoints(const std::optional<CheckpointSettings>& settings, AgentIndex own);

  void note(AgentIndex agent, const std::string& host, const checkpoint::Held& held);
  void move(AgentIndex from, AgentIndex to) {
    known_.move(from, to);
    are_others_ = true;
  }
  void forget(AgentIndex agent);
  // Begins an attempt of those that take part, and returns what each starts from.
  Restores begin_attempt(const Membership& members, Attempt attempt, TimePoint now);
  // Returns the orders that have changed.
  // `saving`: workers may save more. Else nothing more is to go: an agent that leaves with the only parts of
  // the newest step leaves the one before.
  Orders take_orders(const Membership& members, bool saving, TimePoint now);
  std::vector<allocation::Notice> take_notices() { return std::exchange(notices_, {}); }

  // Returns, once, the newest step in memory that no loss of a host would destroy where there are two, and
  // the newest one in the flush folder, which is named then.
  using News = std::vector<std::pair<std::int64_t, std::string>>;
  News take_news();

  // ---- the end of the job

  void note_signal(TimePoint now);  // signal that ends the job
  void begin_end();
  void note_job_end(TimePoint end) { flush_.note_job_end(end); }  // time that the scheduler shows
  // Holds the end back if a newer step can be flushed first; the first cause counts. False: it may come.
  bool hold(const report::Cause& cause);
  bool holds_end() const { return end_.has_value(); }
  void cut_short() { cut_short_ = holds_end(); }  // it waits no longer
  void give_up();                                 // once the job may continue elsewhere
  // Returns the cause once the flush is over, or its time.
  std::optional<report::Cause> take_end(const CoordinatorJobEnd& job, TimePoint now);
  std::optional<TimePoint> due() const { return limit_ ? limit_ : flush_.due(); }

 private:
  using Holders = std::map<AgentIndex, checkpoint::Holder>;
  checkpoint::Restore restore_of(const checkpoint::Saved& start) const;
  Holders holders_of(const Membership& members, const checkpoint::Saved& start) const;
  std::optional<std::int64_t> pending() const;  // step to be flushed
  void tell_loss(const std::optional<checkpoint::Saved>& start);
  void tell_unflushed(std::int64_t step);

  std::optional<CheckpointSettings> settings_;
  AgentIndex own_;
  checkpoint::Register known_;
  checkpoint::Flush flush_;
  std::map<AgentIndex, checkpoint::Order> told_;
  checkpoint::Order common_;                  // the same for all, as it was told last
  std::map<int, AgentIndex> asked_;           // agents that were asked to flush, by rank
  bool is_new_ = false, are_others_ = false;  // something was said; agents have come, gone or changed places
  std::optional<checkpoint::Saved> reached_;  // the newest one that was complete in memory
  std::vector<allocation::Notice> notices_;
  bool copies_ = false, is_untold_ = false;  // there are neighbours; there may be news
  std::int64_t kept_told_ = -1, published_told_ = -1;
  std::optional<report::Cause> end_;  // held back
  bool given_up_ = false, cut_short_ = false;
  std::optional<TimePoint> signal_at_, held_at_, limit_;
};

}  // namespace ddprun::rendezvous
