// Asks py-spy, eu-stack or gdb for the stacks of workers that show no Python stack from inside.
// Used are those in PATH that the kernel lets trace.
#pragma once

#include <vector>

#include "base/duration.hpp"
#include "status/job_status.hpp"
#include "status/json_values.hpp"

namespace ddprun::inspection {

// Adds them to WorkerStatus::view and, as they came, to `collected`, which has as many. Where no tool is
// there or all are refused (kernel.yama.ptrace_scope above 0: a tool is no ancestor of a worker) nothing
// changes.
//
// At most k_most_traced workers are asked, k_traced_at_once at a time, none that is stopped, traced or asleep
// in the kernel, and each stands still while it is read. A tool that is not ready at the deadline is killed,
// and its worker continued unless somebody else has stopped it: call it where waiting half a second longer
// does no harm.
inline constexpr std::size_t k_most_traced = 8, k_traced_at_once = 2;
void add_native_stacks(std::vector<status::WorkerStatus>& workers, std::vector<status::Collected>& collected,
                       TimePoint deadline);

}  // namespace ddprun::inspection
