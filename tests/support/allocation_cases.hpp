// The folders of tests/data/allocations: recorded or constructed variables, facts about the host and options.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "allocation/detection/detect.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::test {

std::string read_text(const std::filesystem::path& path);
// An empty object where there is no such file.
nlohmann::json read_json(const std::filesystem::path& path);

std::filesystem::path data_folder(const std::string& name);

facts::Snapshot read_case_snapshot(const std::filesystem::path& folder);
allocation::PlaceOptions read_place_options(const nlohmann::json& flags);

}  // namespace ddprun::test
