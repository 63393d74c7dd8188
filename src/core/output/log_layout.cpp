#include "output/log_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::output {

namespace {

constexpr int k_kept = 5;
constexpr std::int64_t k_most_kept = 1000;
constexpr std::int64_t k_least_size = 1024;
constexpr std::int64_t k_least_store = 1024 * 1024;
constexpr std::int64_t k_most_size = std::int64_t{1} << 50;

// Parses "100M"; nullopt for anything else.
std::optional<std::int64_t> parse_size(std::string text) {
  const std::string units = "kmgt";
  int shift = 0;
  if (!text.empty()) {
    const std::size_t unit = units.find(to_lower(text.substr(text.size() - 1)));
    if (unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.pop_back();
    }
  }
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > (k_most_size >> shift)) return std::nullopt;
  return *number << shift;
}

}  // namespace

LogRotation parse_rotation(const std::string& text, const std::string& origin) {
  const std::size_t colon = text.find(':');
  const auto size = parse_size(text.substr(0, colon));
  const auto kept = colon == std::string::npos ? k_kept : parse_integer(text.substr(colon + 1));
  if (!size || *size < k_least_size || !kept || *kept < 0 || *kept > k_most_kept) {
    throw UsageError(fmt::format("{} is not a size of log files: '{}'", origin, printable(text)),
                     "give a size of 1k or more and the number of older files to keep, as in 100M:5");
  }
  return {static_cast<std::uint64_t>(*size), static_cast<int>(*kept)};
}

std::uint64_t parse_rate(const std::string& text, const std::string& origin) {
  const auto size = parse_size(text);
  if (!size || *size < k_least_size)
    throw UsageError(fmt::format("{} is not a size: '{}'", origin, printable(text)),
                     "give bytes per second, 1k or more, as in 1M");
  return static_cast<std::uint64_t>(*size);
}

std::uint64_t parse_memory(const std::string& text, const std::string& origin) {
  const auto size = parse_size(text);
  if (!size || *size < k_least_store)
    throw UsageError(fmt::format("{} is not a memory size: '{}'", origin, printable(text)),
                     "give 1M or more, as in 512M or 2G");
  return static_cast<std::uint64_t>(*size);
}

LogLayout layout_of(const OutputOptions& options) {
  return options.logs.value.empty() ? LogLayout::torchrun : LogLayout::ranks;
}

std::string folder_name(const std::string& run_id) {
  std::string name = run_id;
  std::ranges::replace(name, '/', '_');
  if (name.empty() || name == "." || name == ".." || name == "latest") name += "_";
  return name;
}

std::string attempt_folder_name(LogLayout layout, Attempt attempt) {
  return fmt::format("attempt{}{}", layout == LogLayout::torchrun ? '_' : '-', attempt.value);
}

std::string log_file_name(LogLayout layout, LocalRank local_rank, GlobalRank rank, Stream stream) {
  const bool output = stream == Stream::output;
  if (layout == LogLayout::torchrun)
    return fmt::format("{}/{}.log", local_rank.value, output ? "stdout" : "stderr");
  return fmt::format("rank-{:05}.{}", rank.value, output ? "out" : "err");
}

std::string stack_record_name(LogLayout layout, LocalRank local_rank, GlobalRank rank) {
  return layout == LogLayout::torchrun ? fmt::format("{}/stacks.txt", local_rank.value)
                                       : fmt::format("rank-{:05}.stacks", rank.value);
}

std::string stack_dump_name(GlobalRank first) { return fmt::format("stacks/rank-{:05}", first.value); }

std::string kept_suffix(const OutputOptions& options) { return options.compress ? ".zst" : ""; }

std::string filtered_file_name(Stream stream) {
  return stream == Stream::output ? "filtered_stdout.log" : "filtered_stderr.log";
}

}  // namespace ddprun::output
