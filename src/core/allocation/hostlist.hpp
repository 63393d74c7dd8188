// Lists of hosts and numbers as schedulers write them ("n[1-3,07-09],login1"), and files of hosts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::allocation {

// Lists of hosts and of numbers as Slurm and other schedulers write them: "n[1-3,07-09],login1" and back.
//
// Promises the same names in the same order as libslurm's parser (src/common/hostlist.c), which
// tests/process/system/os/libraries/slurm_api_test.cpp checks, and takes text after a bracket as Slurm does
// since 23.11. Stricter than libslurm in one point: what it repairs silently ("n[1-3", "n[1-]", "n]") is an
// error here.

// The number lists in Slurm's variables.

// Expands "4(x2),3" to 4 4 3 (SLURM_TASKS_PER_NODE and the like): one count of at least 1 for each node of
// the list the variable belongs to. Throws Error naming `variable` and the piece that is wrong.
std::vector<int> expand_counts(std::string_view text, const std::string& variable);

// Expands "12000-12004,13000" or "0,1,4,5" (SLURM_STEP_RESV_PORTS, SLURM_GTIDS): numbers from 0 to `most`, in
// their order. Throws Error naming `variable` and the piece that is wrong.
std::vector<int> expand_numbers(std::string_view text, const std::string& variable, int most);

// Open MPI 4's list of hosts in OMPI_MCA_orte_node_regex: "n[1:1-2,7]x,login@0(4)".
//
// Before the @ are names: a prefix, in brackets the width of the number, a colon and ranges, and a suffix; or
// a plain name (orte/mca/regx/base/regx_base_default_fns.c, orte_regx_base_nidmap_create). After it are the
// numbers of the daemons, which say nothing about where they are.

// Expands the names in the order of the text. Throws Error that names `variable` and the piece that is wrong.
std::vector<std::string> expand_node_regex(std::string_view text, const std::string& variable);

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

// Files with one host a line, a line for each slot: PBS_NODEFILE, LSB_DJOB_HOSTFILE.

inline constexpr std::size_t k_node_file_limit = 1 << 20;  // bytes

struct NodeFile {
  std::vector<std::string> hosts;  // each once, by first appearance; compared as same_host does
  std::vector<int> slots;          // lines of each
};

// Throws Error naming the file and the line for anything but host names, and for a file without any.
NodeFile parse_node_file(const std::string& contents, const std::string& path);

}  // namespace ddprun::allocation
