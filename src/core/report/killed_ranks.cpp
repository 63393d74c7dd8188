#include "report/killed_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "options/options.hpp"
#include "report/report.hpp"

namespace ddprun::report {

std::string describe(const KilledRanks& killed) {
  const bool one = killed.ranks.size() == 1;
  const auto after = std::chrono::round<std::chrono::seconds>(killed.after);
  std::string text =
      fmt::format("{} on {} {} killed {} after {}", name_ranks(killed.ranks), killed.host,
                  one ? "was" : "were", describe_duration(after), options::signal_name(killed.signal));
  if (killed.place.empty()) return text;
  const std::string is = "is ";
  const std::string place =
      killed.place.starts_with(is) ? "was " + killed.place.substr(is.size()) : killed.place;
  return text +
         fmt::format("; {} {}", one ? "it" : name_ranks({killed.ranks.front()}), printable(place, 400));
}

std::vector<KilledRanks> fold_alike(std::vector<KilledRanks> killed) {
  std::vector<KilledRanks> folded;
  for (KilledRanks& each : killed) {
    const auto found = std::ranges::find_if(folded, [&](const KilledRanks& known) {
      return known.host == each.host && known.signal == each.signal && known.place == each.place;
    });
    if (found == folded.end()) {
      folded.push_back(std::move(each));
    } else {
      found->ranks.insert(found->ranks.end(), each.ranks.begin(), each.ranks.end());
      std::ranges::sort(found->ranks);
    }
  }
  return folded;
}

}  // namespace ddprun::report
