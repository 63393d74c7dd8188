#include "logs/shared_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "os/atomic_file.hpp"
#include "os/read_file.hpp"
#include "output/log_index.hpp"

namespace ddprun::logs {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_limit = std::size_t{64} << 20;
constexpr int k_rounds = 10;

std::vector<std::string> read_parts(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> parts;
  for (const std::string& name : names) parts.push_back(os::try_read_file(name, k_limit).value_or(""));
  return parts;
}

}  // namespace

void write_index(const std::string& run_folder, int first_rank, const std::string& launch_id,
                 const std::string& part) {
  const std::string folder = run_folder + "/.index";
  const std::string index = run_folder + "/index.json";
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  os::write_file(fmt::format("{}/rank-{:05}.json", folder, first_rank), part);
  if (first_rank != 0 && !output::is_index_of(launch_id, os::try_read_file(index, k_limit).value_or("")))
    return;
  std::vector<std::string> seen;
  for (int round = 0; round < k_rounds; ++round) {
    std::vector<std::string> parts = read_parts(folder);
    if (round > 0 && parts == seen) return;
    os::write_file(index, output::merge_index_parts(launch_id, parts));
    seen = std::move(parts);
  }
}

}  // namespace ddprun::logs
