// torch's flight recorder, as the worker server's fr_trace_json writes it (torch 2.10 to 2.15;
// of 2.8 and 2.9 dump_nccl_trace_json, for NCCL alone): the
// collectives that a rank has entered, newest last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "inspect/rank_view.hpp"

namespace ddprun::inspect {

// The oldest collective that is pending, else the newest one; nothing where there is none, or for another
// text. `unix_nanoseconds`: now, on the clock of the rank's host. Seen with torch 2.13 and gloo: `state`
// stays "scheduled"; `retired` says that it has completed.
std::optional<Collective> parse_flight_record(std::string_view json, std::int64_t unix_nanoseconds);

// How a process group is called here: by its description, which torch sets to "undefined" where there is
// none.
std::string name_of_group(const std::string& name, const std::string& description);

}  // namespace ddprun::inspect
