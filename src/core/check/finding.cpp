#include "check/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::check {

namespace {

constexpr double k_part_of_the_speed = 0.85;  // GPUs of one model differ by a few per cent
constexpr double k_tera = 1e12;

double usual_speed(const std::vector<DeepResult>& results) {
  std::vector<double> speeds;
  for (const DeepResult& each : results) {
    if (each.matmul > 0) speeds.push_back(each.matmul);
  }
  if (speeds.empty()) return 0;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

// Reports errors, in one line if all ranks of all hosts say the same.
void judge_errors(const std::vector<DeepResult>& results, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const DeepResult*>> by_error;
  for (const DeepResult& each : results) {
    if (!each.error.empty()) by_error[each.error].push_back(&each);
  }
  for (const auto& [error, ranks] : by_error) {
    Finding finding{
        Mark::error,
        "torch",
        {},
        {},
        "run the same with a script of your own and TORCH_DISTRIBUTED_DEBUG=INFO, NCCL_DEBUG=INFO"};
    std::vector<int> numbers;
    for (const DeepResult* each : ranks) {
      numbers.push_back(each->rank);
      if (std::ranges::find(finding.hosts, each->host) == finding.hosts.end())
        finding.hosts.push_back(each->host);
    }
    finding.what = fmt::format("{}: {}", rendezvous::describe_ranks(std::move(numbers)), printable(error));
    if (error.starts_with("ModuleNotFoundError") || error.starts_with("ImportError"))
      finding.fix = "activate the environment that has torch before ddprun, or set PYTHON_EXEC";
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void judge_deep(const std::vector<DeepResult>& results, std::vector<Finding>& findings) {
  judge_errors(results, findings);
  const double usual = usual_speed(results);
  for (const DeepResult& each : results) {
    if (each.matmul <= 0 || each.matmul >= usual * k_part_of_the_speed) continue;
    report(
        findings, Mark::warning, "GPU", each.host,
        fmt::format("the GPU of rank {} computes {:.0f} TFLOP/s; the median of all is {:.0f}", each.rank,
                    each.matmul / k_tera, usual / k_tera),
        "see its clocks, power limit and temperature (nvidia-smi -q -d PERFORMANCE), or leave the node out");
  }
}

std::string describe_deep(const std::vector<DeepResult>& results) {
  std::string text;
  if (results.empty()) return text;
  const DeepResult& first = results.front();
  if (!first.rates.empty()) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min(first.rates.size(), first.sizes.size()); ++i)
      parts.push_back(fmt::format("{} at {}/s",
                                  facts::describe_bytes(static_cast<std::uint64_t>(first.sizes[i])),
                                  facts::describe_bytes(static_cast<std::uint64_t>(first.rates[i]))));
    text += fmt::format("all-reduce by {} on {}, bus bandwidth: {}\n", printable(first.backend, 20),
                        count_of(static_cast<std::int64_t>(results.size()), "rank"), join(parts, ", "));
  }
  if (const double usual = usual_speed(results); usual > 0)
    text += fmt::format("matmul in bfloat16, median of the GPUs: {:.0f} TFLOP/s\n", usual / k_tera);
  return text;
}

}  // namespace ddprun::check
