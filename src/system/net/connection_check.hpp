// Measures connections between the nodes of a job: one end answers, the other one asks.
#pragma once

#include <optional>
#include <string>

#include "base/duration.hpp"
#include "net/tcp_tools.hpp"

namespace ddprun::net {

// Length of a check's word: the answering end answers only connections that know the word.
inline constexpr std::size_t k_check_word = 16;  // bytes

// Answers until the process ends. `listener` listens, as bind_port leaves it.
[[noreturn]] void answer_checks(const BoundSocket& listener, const std::string& word);

struct MeasuredConnection {
  std::string problem;      // reason of a failure: "connection refused"; empty: connected
  int path_mtu = 0;         // bytes; 0: not known
  double latency = 0;       // seconds for a short message and its answer: the least of some
  double clock_offset = 0;  // seconds that the other end's clock is ahead
  double clock_uncertainty = 0;
  double rate = 0;       // bytes per second of one stream; 0: not measured
  bool stalled = false;  // short messages arrive, long ones do not
};

// Measures a connection. `stream_for`: time to send as much as there is room for; nullopt: no rate is
// measured. Waits at most `limit` for the connection, and as long again for each answer.
MeasuredConnection measure_connection(const std::string& address, int port, const std::string& word,
                                      std::optional<Milliseconds> stream_for, Milliseconds limit);

}  // namespace ddprun::net
