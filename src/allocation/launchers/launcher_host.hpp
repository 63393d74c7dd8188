// What the names that launchers give to hosts and launches say about where the launcher runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::allocation {

// The host of "prterun-n1-1485@1" (PRRTE's plm_base_jobid.c: tool, host and pid of the one who started it);
// nothing for any other name of a launch.
std::optional<std::string> find_prrte_host(std::string_view launch);

// Made of the characters of IPv4 or IPv6 addresses alone.
bool is_address_text(std::string_view text);

}  // namespace ddprun::allocation
