// Collectives that the ranks of one node have entered lately: what agents send to the coordinator of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
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

// A TCP connection of a rank to another host, with what its kernel has counted since it was opened
// (tcp_info of linux/tcp.h).
struct Connection {
  std::string peer;         // address, numeric
  std::int64_t id = 0;      // its inode: that of no other while it is open
  std::int64_t acked = 0;   // bytes that have arrived
  std::int64_t resent = 0;  // bytes that were sent more than once
  std::int64_t busy = 0;    // microseconds in which bytes were on their way, and the peer had room for more
  int round_trip = 0;       // microseconds, smoothed
  int segment = 0;          // bytes of a full one
  friend bool operator==(const Connection&, const Connection&) = default;
};

// Use of one connection between two looks.
struct LinkUse {
  std::string peer;
  std::int64_t sent = 0, resent = 0;  // bytes
  std::int64_t busy = 0;              // microseconds
  std::int64_t span = 0;              // microseconds from one look to the other
  bool filled = false;                // its rate is the network's; else the network may carry more
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct NodeTrace {
  std::int64_t base = 0;  // microseconds on a clock that the nodes share
  int bound = 0;          // microseconds by which that clock may be wrong; ranks of one node share an error
  int step = 0;           // microseconds of a training step of the first rank; 0: not known
  std::vector<std::string> groups;
  std::vector<RankTrace> ranks;
  std::vector<Connection> connections{};  // to other hosts; only the use of one is sent on
  std::optional<LinkUse> link{};          // use of the busiest of them
  friend bool operator==(const NodeTrace&, const NodeTrace&) = default;
};

// Adds a rank's flight record (torch 2.10 to 2.15, status/flight_record.hpp). The base is that of the first
// one, in Unix time of the host. Left out are a text that is no record, and entries that are half an hour
// from the first one.
void add_flight_record(NodeTrace& node, int rank, std::string_view json);

// Returns the use of the connection that was busy for the longest time since `before`, of those that have
// sent a fair amount. One that was filled comes first: it had more bytes on their way than a few segments, or
// many were sent twice. A rank that sends small messages waits for each answer, which shows no rate.
std::optional<LinkUse> find_busiest(const std::vector<Connection>& before, const std::vector<Connection>& now,
                                    std::int64_t span);

// Keeps the newest `most` entries of each rank.
void shorten(NodeTrace& node, std::size_t most);

// Renders one line of JSON. Parsing returns nullopt for any other text.
std::string render_trace(const NodeTrace& trace);
std::optional<NodeTrace> parse_trace(std::string_view text);

inline constexpr std::size_t k_most_groups = 256, k_most_ranks = 1024, k_most_entries = 256,
                             k_most_connections = 1024;
inline constexpr std::size_t k_max_trace = std::size_t{768} << 10;  // bytes of its text

// Offset of this host's wall clock from the clock of the coordinator, measured by questions to it.
//
// An answer tells the coordinator's time at some moment between the question and the answer: with the middle
// of them the offset is wrong by half of the round trip at most. So the smallest round trip counts, whatever
// else the network and the machines do. Clocks drift apart (and NTP slews them by up to 500 in a million):
// a measurement is used for the look that it was made for.

class ClockOffset {
 public:
  struct Reading {
    std::int64_t offset;  // to be added to a time of this clock
    int bound;            // the offset is wrong by no more
  };

  void begin() { *this = {}; }
  // Notes an answer. All in microseconds: when it was asked and received on this clock, and the other one's.
  void note(std::int64_t asked, std::int64_t other, std::int64_t received) {
    ++answers_;
    const std::int64_t bound =
        std::min<std::int64_t>((received - asked + 1) / 2, std::numeric_limits<int>::max());
    const bool was_set = received < asked;
    if (!was_set && (!best_ || bound < best_->bound))
      best_ = Reading{other - (asked + (received - asked) / 2), static_cast<int>(bound)};
  }
  bool is_done() const { return answers_ >= 5; }
  std::optional<Reading> reading() const { return best_; }

 private:
  int answers_ = 0;
  std::optional<Reading> best_;
};

}  // namespace ddprun::slow
