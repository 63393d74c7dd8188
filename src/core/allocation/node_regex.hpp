// Open MPI 4's list of hosts in OMPI_MCA_orte_node_regex: "n[1:1-2,7]x,login@0(4)".
//
// Before the @ are names: a prefix, in brackets the width of the number, a colon and ranges, and a suffix; or
// a plain name (orte/mca/regx/base/regx_base_default_fns.c, orte_regx_base_nidmap_create). After it are the
// numbers of the daemons, which say nothing about where they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::allocation {

// Expands the names in the order of the text. Throws Error that names `variable` and the piece that is wrong.
std::vector<std::string> expand_node_regex(std::string_view text, const std::string& variable);

}  // namespace ddprun::allocation
