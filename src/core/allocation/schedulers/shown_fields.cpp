#include "allocation/schedulers/shown_fields.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::int64_t k_longest = std::int64_t{1} << 40;
constexpr std::int64_t k_day = 86400;

}  // namespace

std::map<std::string, std::string> read_pairs(std::string_view shown) {
  std::map<std::string, std::string> fields;
  for (const std::string& word : split_words(shown)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) fields.try_emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

std::map<std::string, std::string> read_slurm_job(std::string_view shown, const std::string& id) {
  const std::vector<std::string> words = split_words(shown);
  const auto begins = [](const std::string& word) { return word.starts_with("JobId="); };
  const auto first = std::ranges::find(words, "JobId=" + id);
  if (first == words.end()) return {};
  return read_pairs(join({first, std::find_if(first + 1, words.end(), begins)}, " "));
}

std::map<std::string, std::string> read_attributes(std::string_view shown) {
  std::map<std::string, std::string> fields;
  std::string* value = nullptr;
  for (const std::string& line : split(shown, '\n')) {
    const std::size_t middle = line.find(" = ");
    if (line.starts_with('\t') && value != nullptr) {
      value->append(line, 1);
    } else if (middle != std::string::npos) {
      value = &fields[std::string(trim(line.substr(0, middle)))];
      *value = line.substr(middle + 3);
    }
  }
  return fields;
}

std::optional<std::int64_t> parse_span(std::string_view text) {
  std::int64_t days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos && dash > 0) {
    const auto number = parse_integer(text.substr(0, dash));
    if (!number || *number < 0 || *number > k_longest / k_day) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::int64_t seconds = 0;
  for (const std::string& part : split(text, ':')) {
    const auto number = parse_integer(part);
    if (!number || *number < 0 || *number > k_longest || seconds > k_longest) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return days * k_day + seconds;
}

}  // namespace ddprun::allocation
