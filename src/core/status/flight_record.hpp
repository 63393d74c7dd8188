// torch's flight recorder: the collectives that a rank has entered, newest last.
// Read as the worker server's fr_trace_json writes it (torch 2.10 to 2.15), or dump_nccl_trace_json of torch
// 2.8 and 2.9, for NCCL alone; and the pickles that torch itself writes (TORCH_FR_DUMP_TEMP_FILE).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// Reports whether a text begins as a pickle of protocol 2 or later. Reading gives the value as JSON, where
// pairs are lists, and runs nothing; a discarded value (is_discarded()) where the text has anything but the
// instructions that torch uses for dictionaries with names, lists, pairs, texts, numbers, truth values and
// None, or nests or repeats what it has without measure. Instructions: pickletools of Python;
// torch/csrc/jit/serialization/pickler.cpp.
bool is_pickle(std::string_view text);
nlohmann::json read_pickle(std::string_view text);

// Returns the record as JSON, whose "entries" are a list of objects; a discarded value for another text.
nlohmann::json read_flight_record(std::string_view text);
// Returns its entries, oldest first: the record is a ring.
std::vector<const nlohmann::json*> entries_in(const nlohmann::json& record);
// Return "all_reduce" of an entry with "gloo:all_reduce", and torch's own name of its process group.
std::string operation_in(const nlohmann::json& entry);
std::string process_group_in(const nlohmann::json& entry);
// Returns what one entry says.
Collective read_collective(const nlohmann::json& entry, std::int64_t unix_nanoseconds);

// Returns the oldest collective that is pending, else the newest one; nullopt if there is none, or for
// another text. `unix_nanoseconds`: now, on the clock of the rank's host. Seen with torch 2.13 and gloo:
// `state` stays "scheduled"; `retired` says that it has completed.
std::optional<Collective> parse_flight_record(std::string_view json, std::int64_t unix_nanoseconds);

// Returns the name by which a process group is shown: its description, which torch sets to "undefined" if
// there is none.
std::string name_of_group(const std::string& name, const std::string& description);

}  // namespace ddprun::status
