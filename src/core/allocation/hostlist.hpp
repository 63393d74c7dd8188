// Slurm's host lists: "n[1-3,07-09],login1" to names and back.
//
// Promises the same names in the same order as libslurm's parser (src/common/hostlist.c), which
// tests/process/system/os/libraries/slurm_api_test.cpp checks, and takes text after a bracket as Slurm does
// since 23.11. Stricter than libslurm in one point: what it repairs silently ("n[1-3", "n[1-]", "n]") is an
// error here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::allocation {

inline constexpr std::size_t k_max_hosts_per_range = 65536;  // libslurm's MAX_RANGE
inline constexpr std::size_t k_max_hosts = 131072;           // limit of one list; Slurm has 64 Ki nodes
inline constexpr std::size_t k_max_host_name = 255;          // bytes, as in DNS

// Reports whether the name has 1 to k_max_host_name bytes of letters, digits, '-', '_' and '.', and no '-' or
// '.' in front.
bool is_host_name(std::string_view name);

// Returns the position of `host` among `hosts` by short name.
std::optional<int> find_host(const std::vector<std::string>& hosts, std::string_view host);

// Expands a host list, in its order and with its duplicates; an empty list gives no names. Throws Error that
// names `variable` and the piece that is wrong.
std::vector<std::string> expand_hostlist(std::string_view text, const std::string& variable);
// Counts the names without making them. Throws as above, but for names that are too long.
std::size_t count_hostlist(std::string_view text, const std::string& variable);

// Returns the shortest list that expands to the same names in the same order; leading zeros that all names of
// a group share stay outside the bracket: "nid00[12-14],login1".
std::string compress_hostlist(const std::vector<std::string>& hosts);

}  // namespace ddprun::allocation
