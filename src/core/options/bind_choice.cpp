#include "options/bind_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "options/options.hpp"

namespace ddprun::options {

namespace {

using Cpus = std::vector<int>;

constexpr std::size_t k_most_cpus = 1 << 16;  // in all lists together

constexpr const char* k_list_hint = "write a list for each worker, as in core:0-7:8-15";
constexpr const char* k_mask_hint =
    "write a hexadecimal mask for each worker, as in mask:ff,ff00; bit 0 is CPU 0";
constexpr const char* k_map_hint = "write a CPU for each worker, as in map_cpu:0,8,16,24";

constexpr std::array<std::pair<const char*, BindMode>, 7> k_words{{{"auto", BindMode::automatic},
                                                                   {"near", BindMode::near},
                                                                   {"none", BindMode::none},
                                                                   {"node", BindMode::node},
                                                                   {"socket", BindMode::socket},
                                                                   {"exclusive", BindMode::exclusive},
                                                                   {"core-complex", BindMode::core_complex}}};

// Parses "0-7,64-71" in any order; a CPU that is listed twice counts once.
std::optional<Cpus> parse_list(std::string_view text) {
  Cpus cpus;
  for (const std::string& part : split(text, ',')) {
    const auto range = trim(part).empty() ? std::nullopt : facts::parse_cpu_list(part);
    if (!range || cpus.size() + range->size() > k_most_cpus) return std::nullopt;
    cpus.insert(cpus.end(), range->begin(), range->end());
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::optional<int> parse_cpu(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > facts::k_highest_cpu) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<Cpus> parse_one_cpu(std::string_view text) {
  const auto cpu = parse_cpu(text);
  return cpu ? std::optional(Cpus{*cpu}) : std::nullopt;
}

int hex_digit(char c) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  const std::size_t value = k_digits.find(c);
  return value == std::string_view::npos ? -1 : static_cast<int>(value);
}

std::optional<Cpus> parse_mask(std::string_view text) {
  std::string digits = to_lower(text);
  if (digits.starts_with("0x")) digits.erase(0, 2);
  if (digits.empty() || digits.size() > (facts::k_highest_cpu + 1) / 4) return std::nullopt;
  Cpus cpus;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const int value = hex_digit(digits[digits.size() - 1 - i]);
    if (value < 0) return std::nullopt;
    for (int bit = 0; bit < 4; ++bit) {
      if ((value >> bit & 1) != 0) cpus.push_back(static_cast<int>(i) * 4 + bit);
    }
  }
  return cpus;
}

// Form of a choice that has lists.
struct Form {
  char separator;
  const char* noun;
  std::optional<Cpus> (*parse)(std::string_view);
  bool repeats;  // srun's "0xff*4": the same for four workers
  const char* hint;
};

constexpr Form k_lists{':', "a list of CPUs", parse_list, false, k_list_hint};
constexpr Form k_masks{',', "a mask of CPUs", parse_mask, true, k_mask_hint};
constexpr Form k_map{',', "a CPU", parse_one_cpu, true, k_map_hint};

constexpr std::array<std::pair<const char*, const Form*>, 6> k_prefixes{{{"core", &k_lists},
                                                                         {"cpu", &k_lists},
                                                                         {"list", &k_lists},
                                                                         {"mask", &k_masks},
                                                                         {"mask_cpu", &k_masks},
                                                                         {"map_cpu", &k_map}}};

std::vector<Cpus> parse_lists(std::string_view text, const Form& form, const std::string& origin) {
  std::vector<Cpus> lists;
  std::size_t cpus = 0;
  for (const std::string& piece : split(text, form.separator)) {
    const std::size_t star = form.repeats ? piece.find('*') : std::string::npos;
    const auto times = star == std::string::npos ? 1 : parse_integer(piece.substr(star + 1)).value_or(0);
    const auto list = form.parse(trim(piece.substr(0, star)));
    if (!list || times < 1) {
      throw UsageError(fmt::format("{} has '{}' where {} belongs", origin, printable(piece, 80), form.noun),
                       form.hint);
    }
    if (list->empty()) {
      throw UsageError(fmt::format("{} has an empty mask: '{}'", origin, printable(piece, 80)), form.hint);
    }
    if (times > k_max_workers - static_cast<std::int64_t>(lists.size())) {
      throw UsageError(fmt::format("{} describes more than {} workers", origin, k_max_workers), form.hint);
    }
    cpus += list->size() * static_cast<std::size_t>(times);
    if (cpus > k_most_cpus) {
      throw UsageError(fmt::format("{} names more than {} CPUs", origin, k_most_cpus), form.hint);
    }
    lists.insert(lists.end(), static_cast<std::size_t>(times), *list);
  }
  return lists;
}

UsageError unknown_binding(const std::string& text, const std::string& origin) {
  std::vector<std::string> words;
  for (const auto& [word, mode] : k_words) words.emplace_back(word);
  const auto match = closest_match(text, words);
  return UsageError(fmt::format("unknown {} mode '{}'", origin, printable(text, 80)),
                    match
                        ? fmt::format("did you mean {}?", *match)
                        : fmt::format("give one of {}, or CPUs as in core:0-7:8-15, cpu:0-7 or mask:ff,ff00",
                                      join(words, ", ")));
}

}  // namespace

BindChoice parse_bind(const std::string& text, const std::string& origin) {
  BindChoice choice;
  choice.origin = origin;
  for (const auto& [word, mode] : k_words) {
    if (text != word) continue;
    choice.mode = mode;
    return choice;
  }
  const std::size_t colon = text.find(':');
  for (const auto& [prefix, form] : k_prefixes) {
    if (colon == std::string::npos || text.substr(0, colon) != prefix) continue;
    choice.mode = BindMode::lists;
    choice.whole_cores = std::string_view(prefix) == "core";
    choice.lists = parse_lists(std::string_view(text).substr(colon + 1), *form, origin);
    return choice;
  }
  throw unknown_binding(text, origin);
}

std::string to_string(BindMode mode) {
  for (const auto& [word, known] : k_words) {
    if (known == mode) return word;
  }
  return "lists";
}

}  // namespace ddprun::options
