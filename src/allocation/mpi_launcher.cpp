#include "ddprun/allocation/mpi_launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

struct RankVariables {
  const char* rank;
  const char* size;    // "" where there is none
  const char* origin;  // variable that holds "<job>.<step>" when srun's plug-in is behind it
};

constexpr std::array<RankVariables, 5> k_rank_variables{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ""},
    {"PALS_RANKID", "PMI_SIZE", "PALS_APID"},
    {"PMI_RANK", "PMI_SIZE", "PMI_JOBID"},
    {"PMIX_RANK", "", "PMIX_NAMESPACE"},
}};

constexpr std::int64_t k_most = std::numeric_limits<std::uint32_t>::max();

// "1.3" of "1.3" (mpi/pmi2, mpi/cray_shasta) and of "slurm.pmix.1.3" (mpi/pmix).
std::string read_slurm_step(const Variables& variables, const RankVariables& names) {
  const auto text = variables.text(names.origin);
  if (!text) return {};
  std::string_view step = text->value;
  constexpr std::string_view k_pmix = "slurm.pmix.";
  if (step.substr(0, k_pmix.size()) == k_pmix) step.remove_prefix(k_pmix.size());
  const auto numbers = split(step, '.');
  const bool both = numbers.size() == 2 && std::all_of(numbers.begin(), numbers.end(), [](const auto& n) {
                      return parse_integer(n).value_or(-1) >= 0;
                    });
  return both ? std::string(step) : std::string{};
}

}  // namespace

std::vector<MpiPlace> find_mpi_places(const Variables& variables) {
  std::vector<MpiPlace> places;
  for (const RankVariables& names : k_rank_variables) {
    auto rank = variables.number(names.rank, 0, k_most);
    if (!rank) continue;
    places.push_back(
        {std::move(*rank), variables.number(names.size, 1, k_most), read_slurm_step(variables, names)});
  }
  return places;
}

std::string describe(const MpiPlace& place) {
  const std::string rank = fmt::format("{}={}", place.rank.origin, place.rank.value);
  return place.size ? fmt::format("{} (of {})", rank, place.size->value) : rank;
}

}  // namespace ddprun
