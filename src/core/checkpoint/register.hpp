// Register of what all agents have of the job's checkpoints, and what the next attempt can start from.
//
// Each rank saves its part of a step into its node's memory, a neighbour copies it from there, and both say
// so. A step is complete once every rank's part is somewhere. An attempt starts from the newest complete one,
// or from the flush folder's if that is newer: the same step for all, whoever has run which rank before. Only
// what agents say is remembered, so that another coordinator knows as much once they have joined it.
//
// A training that goes back to step 70 saves step 80 a second time, and the two have nothing in common but
// the number. Agents that take part in the attempt remove all that is newer than 70 first; those that wait,
// are late, or have missed that Start as their coordinator was lost may still have it. So each says which
// attempt was begun there last, and of its parts those count that are no newer than what all attempts since
// have started from; none if one of these is unknown. An agent whose other parts could be taken for those of
// a restored step removes all that it has.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "checkpoint/manifest.hpp"

namespace ddprun::checkpoint {

// Neighbours that keep copies of each other's checkpoints.
struct Place {
  AgentIndex agent;
  std::string host;
  std::string unit;  // switch or NVLink domain; empty: not known
};

// Returns, for each agent, the one whose parts it copies: each has at most one, and is copied by at most one.
// It is on the next host, on one of the next switch where none has more than half of the agents. None for an
// agent for which every other host has its own already.
std::map<AgentIndex, AgentIndex> choose_neighbours(const std::vector<Place>& places);

// Choice of the steps that an agent removes, and of the parts that it copies from its neighbour.

using StepSizes = std::map<std::int64_t, std::uint64_t>;  // bytes that an agent has of each step

// Returns the steps that are needless: older than all in `complete` (Order::complete).
std::vector<std::int64_t> needless_steps(const StepSizes& steps, const std::vector<std::int64_t>& complete);
// Returns the steps to remove, oldest first, so that `bytes` become free. The newest complete step and what
// is newer are never among them. Empty: they would not free enough.
std::vector<std::int64_t> steps_to_remove(const StepSizes& steps, const std::vector<std::int64_t>& complete,
                                          std::uint64_t bytes);
// Returns the parts of the newest step that the neighbour offers and that lacks a replica here; none that is
// needless.
std::vector<Offer> parts_to_copy(const std::vector<Offer>& offers, const std::vector<Part>& here,
                                 const std::vector<std::int64_t>& complete);

// A checkpoint: two of one step that were saved by different numbers of ranks are different.
struct Saved {
  std::int64_t step = 0;
  int world = 0;
  friend auto operator<=>(const Saved&, const Saved&) = default;
};

class Register {
 public:
  // Agents that have a rank's part, and whether it is the part itself, no replica.
  using Holders = std::map<AgentIndex, bool>;

  void note(AgentIndex agent, const std::string& host, const Held& held);
  void forget(AgentIndex agent);
  void move(AgentIndex from, AgentIndex to);  // to another place
  // Notes that an attempt starts on these agents, from this step; -1: from nothing.
  void begin_attempt(int attempt, std::int64_t from, const std::vector<AgentIndex>& agents);

  // Returns the complete ones in memory, the newest first.
  std::vector<Saved> complete() const;
  // Returns the newest one that no loss of a single host would destroy.
  std::optional<Saved> newest_safe() const;
  std::optional<Saved> published() const { return published_; }
  // Returns what an attempt would start from.
  std::optional<Saved> newest() const;
  // Returns what must stay in memory, the newest first: two complete ones, as one of them is being saved, and
  // the newest safe one, beside one that is being flushed.
  std::vector<std::int64_t> kept(std::optional<std::int64_t> flushed) const;
  // Notes that all agents are told to keep these only, beside what is newer: the others count no more, as
  // they may have gone before an agent says so.
  void note_kept(const std::vector<std::int64_t>& steps);
  // Reports whether an agent that starts from this step has to remove all that it has.
  bool is_stale(AgentIndex agent, std::int64_t step) const;

  const std::string& host_of(AgentIndex agent) const { return agents_.at(agent).host; }
  std::map<int, Holders> holders(const Saved& saved) const;
  std::vector<int> missing(const Saved& saved) const;  // ranks whose part no agent has
  // Returns the ranks whose parts of a step agents have written in the flush of that number.
  std::set<int> flushed(std::int64_t step, int number) const;

 private:
  struct Entry {
    std::string host;
    Held held;
    int begun = -1;  // latest attempt that it was told to start
  };
  bool note_begun(const Held& held);
  std::int64_t limit_of(int attempt) const;
  void add(AgentIndex agent, const Entry& entry);
  void remove(AgentIndex agent);
  void add_all();
  bool counts(std::int64_t step) const;
  bool is_safe(const std::map<int, Holders>& ranks) const;

  std::map<AgentIndex, Entry> agents_;
  std::map<Saved, std::map<int, Holders>> saved_;  // parts that count
  std::map<int, std::int64_t> begun_;              // attempts, and the step which each started from
  int known_since_ = 0;                            // all attempts that were begun from this one on are known
  std::int64_t newest_kept_ = -1;  // newest of all that agents were told to keep in this attempt
  std::vector<std::int64_t> kept_;
  std::optional<Saved> published_;
};

}  // namespace ddprun::checkpoint
