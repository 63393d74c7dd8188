#include "commands/stack_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/read_file.hpp"
#include "status/moment.hpp"

namespace ddprun::commands {

namespace {

constexpr std::size_t k_record_limit = std::size_t{64} << 20;
constexpr std::size_t k_most_calls = 1 << 20;
constexpr std::size_t k_most_digits = 7;  // digits of a rank
constexpr const char* k_attempt = "attempt-";

std::optional<status::Moment> read_dumps(const std::string& folder) {
  std::vector<status::Moment> dumps;
  for (const std::string& name : os::list_folder(folder)) {
    const auto text =
        name.ends_with(".json") ? os::try_read_file(folder + "/" + name, status::k_max_moment) : std::nullopt;
    if (auto dump = text ? status::parse_moment(*text) : std::nullopt) dumps.push_back(std::move(*dump));
  }
  return status::join_newest(std::move(dumps));
}

// Returns the name without its rank, and the rank: "nccl_trace_rank_3", "fr_3.json".
std::optional<std::pair<std::string, int>> split_rank(std::string name) {
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  const std::size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  if (digits == 0 || digits > k_most_digits) return std::nullopt;
  const auto rank = parse_integer(name.substr(name.size() - digits));
  return std::pair(name.substr(0, name.size() - digits), static_cast<int>(*rank));
}

// Returns the records of the name that most of them have.
std::optional<status::Moment> read_flight_records(const std::string& folder) {
  std::map<std::string, status::Moment> found;
  for (const std::string& file : os::list_folder(folder)) {
    const auto name = split_rank(file);
    const std::string path = folder + "/" + file;
    const auto text = name ? os::try_read_file(path, k_record_limit) : std::nullopt;
    const std::int64_t time = os::last_written(path).value_or(0);
    auto history =
        text ? status::parse_history(name->second, *text, "", time * 1'000'000, k_most_calls) : std::nullopt;
    if (!history) continue;
    status::Moment& moment = found[name->first];
    moment.histories.push_back(std::move(*history));
    moment.time = std::max(moment.time, time);
  }
  const auto most =
      std::ranges::max_element(found, {}, [](const auto& each) { return each.second.histories.size(); });
  if (most == found.end()) return std::nullopt;
  std::ranges::sort(most->second.histories, {}, &status::RankHistory::rank);
  return status::make_moment(std::move(most->second.histories), most->second.time);
}

std::string last_attempt(const std::string& folder) {
  std::int64_t last = 0;
  for (const std::string& name : os::list_folder(folder)) {
    if (name.starts_with(k_attempt))
      last = std::max(last, parse_integer(name.substr(std::string_view(k_attempt).size())).value_or(0));
  }
  return fmt::format("{}/{}{}", folder, k_attempt, last);
}

}  // namespace

std::string describe_stack_folder(const std::string& folder) {
  std::string dumps, records;
  for (const std::string& run : {folder, folder + "/latest"}) {
    for (const std::string& place : {run + "/stacks", run, last_attempt(run)}) {
      if (const auto moment = dumps.empty() ? read_dumps(place) : std::nullopt)
        dumps = status::describe_moment(*moment);
      if (const auto moment = records.empty() ? read_flight_records(place) : std::nullopt)
        records = status::describe_moment(*moment);
    }
  }
  if (dumps.empty() && records.empty())
    throw UsageError(fmt::format("{} contains no dumps of --stacks-every and no flight records of torch",
                                 printable(folder)),
                     "give the folder of --logs, or of TORCH_FR_DUMP_TEMP_FILE");
  return dumps + (dumps.empty() || records.empty() ? "" : "\n") + records;
}

}  // namespace ddprun::commands
