// The forms in which schedulers' programs show a job: pairs, attributes and spans of time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::allocation {

// Reads Slurm's "Key=value Key=value"; the first of each name counts.
std::map<std::string, std::string> read_pairs(std::string_view shown);
// The pairs of one job among the records of `scontrol show job`, each of which begins with JobId: the id of
// an array shows all its elements, that of a heterogeneous job all its components. Empty where it is not
// shown.
std::map<std::string, std::string> read_slurm_job(std::string_view shown, const std::string& id);
// Reads PBS' "    name = value", continued by lines that begin with a tab.
std::map<std::string, std::string> read_attributes(std::string_view shown);
// Parses "45", "30:00", "01:00:00" or "1-02:00:00" in seconds.
std::optional<std::int64_t> parse_span(std::string_view text);

}  // namespace ddprun::allocation
