// The number lists in Slurm's variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::allocation {

// Expands "4(x2),3" to 4 4 3 (SLURM_TASKS_PER_NODE and the like): one count of at least 1 for each node of
// the list the variable belongs to. Throws Error naming `variable` and the piece that is wrong.
std::vector<int> expand_counts(std::string_view text, const std::string& variable);

// Expands "12000-12004,13000" or "0,1,4,5" (SLURM_STEP_RESV_PORTS, SLURM_GTIDS): numbers from 0 to `most`, in
// their order. Throws Error naming `variable` and the piece that is wrong.
std::vector<int> expand_numbers(std::string_view text, const std::string& variable, int most);

}  // namespace ddprun::allocation
