#include "allocation/number_list.hpp"

#include <fmt/format.h>

#include <limits>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::size_t k_max_numbers = k_max_hosts;

[[noreturn]] void fail(const std::string& variable, const char* what, std::string_view piece,
                       const char* example) {
  throw Error(
      fmt::format("{} is not a list of {}: invalid entry \"{}\"", variable, what, printable(piece, 80)),
      fmt::format("such a list looks like {}; clear the variable if it was set manually", example));
}

int parse_in_range(std::string_view text, int least, int most) {
  const auto value = text.empty() || text[0] == '-' ? std::nullopt : parse_integer(text);
  return value && *value >= least && *value <= most ? static_cast<int>(*value) : -1;
}

}  // namespace

std::vector<int> expand_counts(std::string_view text, const std::string& variable) {
  std::vector<int> counts;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t bracket = piece.find("(x");
    const bool repeated = bracket != std::string::npos && piece.back() == ')';
    const std::string_view whole = piece;
    const int count = parse_in_range(whole.substr(0, bracket), 1, std::numeric_limits<int>::max());
    int times = 1;
    if (bracket != std::string::npos) {
      times = repeated ? parse_in_range(whole.substr(bracket + 2, piece.size() - bracket - 3), 1,
                                        static_cast<int>(k_max_numbers))
                       : -1;
    }
    if (count < 0 || times < 0 || counts.size() + static_cast<std::size_t>(times) > k_max_numbers)
      fail(variable, "counts", piece, "4(x2),3");
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  }
  return counts;
}

std::vector<int> expand_numbers(std::string_view text, const std::string& variable, int most) {
  std::vector<int> numbers;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const std::string_view whole = piece;
    const int low = parse_in_range(whole.substr(0, dash), 0, most);
    const int high = dash == std::string::npos ? low : parse_in_range(whole.substr(dash + 1), 0, most);
    if (low < 0 || high < low ||
        numbers.size() + static_cast<std::size_t>(high) - static_cast<std::size_t>(low) >= k_max_numbers)
      fail(variable, "numbers", piece, "0-3,7");
    for (int number = low;; ++number) {
      numbers.push_back(number);
      if (number == high) break;
    }
  }
  return numbers;
}

}  // namespace ddprun::allocation
