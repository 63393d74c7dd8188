// Hosts as places write them: "h", "h:port", "[v6]:port", "v6".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sourced.hpp"

namespace ddprun::allocation {

struct HostText {
  std::string host;  // a name or a numeric address, without brackets
  std::optional<int> port;
  friend bool operator==(const HostText&, const HostText&) = default;
};

// Returns nullopt for a text that is none of these, or has a port outside 1 to 65535.
std::optional<HostText> parse_host_text(std::string_view text);

// Parses likewise; throws Error that names `origin`.
HostText read_host_text(std::string_view text, const std::string& origin);

// Reads the hosts of a list, without ports; empty entries are left out. Throws Error that names the variable.
Sourced<std::vector<std::string>> read_host_list(const Sourced<std::string>& list, char separator);

}  // namespace ddprun::allocation
