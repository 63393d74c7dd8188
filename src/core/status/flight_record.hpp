// Collectives that ranks have entered, as torch's flight recorder and NCCL's RAS show them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// torch's flight recorder: the collectives that a rank has entered, newest last.
// Read as the worker server's fr_trace_json writes it (torch 2.10 to 2.15), or dump_nccl_trace_json of torch
// 2.8 and 2.9, for NCCL alone; and the pickles that torch itself writes (TORCH_FR_DUMP_TEMP_FILE).

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

// Answer of NCCL's RAS for a whole job: the number of collectives that each process has started.
// Of the processes of a host one listens at NCCL_RAS_ADDR, whatever Python does in it
// (src/ras/client_support.cc of NCCL; as JSON since 2.28.7, before that only as text, in which nothing is
// found here).

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
