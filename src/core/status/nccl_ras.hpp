// Answer of NCCL's RAS for a whole job: the number of collectives that each process has started.
// Of the processes of a host one listens at NCCL_RAS_ADDR, whatever Python does in it
// (src/ras/client_support.cc of NCCL; as JSON since 2.28.7, before that only as text, in which nothing is
// found here).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// Request to RAS, which answers line by line and then closes the connection. The time-out is its wait for
// other processes.
inline constexpr std::string_view k_ras_request = "CLIENT PROTOCOL 2\nTIMEOUT 1\nSET FORMAT json\nSTATUS\n";

struct RasProcess {
  std::string host;  // an address of it
  int pid = 0;
  NcclCounts counts{};
  friend bool operator==(const RasProcess&, const RasProcess&) = default;
};

// Parses the answer, sorted by host and pid; empty for another text.
std::vector<RasProcess> parse_ras_answer(std::string_view answer);

}  // namespace ddprun::status
