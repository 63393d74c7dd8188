// Collectives that the ranks of one node have entered lately: what agents send to the coordinator of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::slow {

// Kind of waiting that an entry shows. In `meets` every rank of the group waits for the last one; in a
// broadcast, a reduce or a scatter only some wait for some, so that a late rank need not cost the others
// anything.
enum class Role { meets, sends, other };

// One collective as one rank entered it. All are int, as they travel in rows.
struct Entry {
  int group = 0;      // index in NodeTrace::groups
  int role = 0;       // Role
  int sequence = 0;   // number within the group
  int signature = 0;  // number for its operation and sizes: equal for equal ones
  int at = 0;         // microseconds since NodeTrace::base
  int took = 0;       // microseconds on the GPU, waiting for the others included; 0: not known
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct RankTrace {
  int rank = 0;
  std::vector<Entry> entries;  // order in which they were entered
  friend bool operator==(const RankTrace&, const RankTrace&) = default;
};

struct NodeTrace {
  std::int64_t base = 0;  // microseconds on a clock that the nodes share
  int bound = 0;          // microseconds by which that clock may be wrong; ranks of one node share an error
  int step = 0;           // microseconds of a training step of the first rank; 0: not known
  std::vector<std::string> groups;
  std::vector<RankTrace> ranks;
  friend bool operator==(const NodeTrace&, const NodeTrace&) = default;
};

// Adds a rank's flight record (torch 2.10 to 2.15, status/flight_record.hpp). The base is that of the first
// one, in Unix time of the host. Left out are a text that is no record, and entries that are half an hour
// from the first one.
void add_flight_record(NodeTrace& node, int rank, std::string_view json);

// Keeps the newest `most` entries of each rank.
void shorten(NodeTrace& node, std::size_t most);

// Renders one line of JSON. Parsing returns nullopt for any other text.
std::string render_trace(const NodeTrace& trace);
std::optional<NodeTrace> parse_trace(std::string_view text);

inline constexpr std::size_t k_most_groups = 256, k_most_ranks = 1024, k_most_entries = 256;
inline constexpr std::size_t k_max_trace = std::size_t{768} << 10;  // bytes of its text

}  // namespace ddprun::slow
