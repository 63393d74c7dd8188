#include "status/nccl_ras.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/json_text.hpp"
#include "status/json_values.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

// Sends and receives are left out, where they are counted: they differ from rank to rank by nature.
std::uint64_t sum_of_counts(const Json& rank) {
  const auto counts = rank.find("collective_counts");
  if (counts == rank.end() || !counts->is_object()) return 0;
  std::uint64_t sum = 0;
  for (const auto& [operation, count] : counts->items()) {
    const bool between_two = operation.starts_with("Send") || operation.starts_with("Recv");
    if (!between_two) sum += whole_number<std::uint64_t>(count).value_or(0);
  }
  return sum;
}

using Process = std::pair<std::string, int>;  // address of its host, and process id

void add_communicator(std::map<Process, NcclCounts>& found, const Json& communicator) {
  std::map<Process, std::uint64_t> here;
  std::uint64_t most = 0;
  for (const Json& rank : list_in(communicator, "ranks")) {
    const int pid = rank.is_object() ? number_in<int>(rank, "pid") : 0;
    if (pid == 0) continue;
    const std::uint64_t started = here[{text_in(rank, "host"), pid}] = sum_of_counts(rank);
    most = std::max(most, started);
  }
  for (const auto& [process, started] : here) {
    NcclCounts& counts = found[process];
    counts.started += started;
    counts.behind = std::max(counts.behind, most - started);
  }
}

}  // namespace

std::vector<RasProcess> parse_ras_answer(std::string_view answer) {
  const std::size_t begin = answer.find("\n{");
  if (!answer.starts_with("SERVER PROTOCOL ") || begin == std::string_view::npos) return {};
  const Json json = read_json_text(answer.substr(begin + 1));
  std::map<Process, NcclCounts> found;
  for (const Json& communicator : list_in(json, "communicators")) add_communicator(found, communicator);
  std::vector<RasProcess> processes;
  for (const auto& [process, counts] : found) processes.push_back({process.first, process.second, counts});
  return processes;
}

}  // namespace ddprun::status
