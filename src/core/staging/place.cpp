#include "staging/place.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "facts/memory_text.hpp"
#include "staging/manifest.hpp"

namespace ddprun::staging {

namespace {

constexpr std::uint64_t k_margin = std::uint64_t{64} << 20U;

}  // namespace

std::vector<std::string> places(const std::string& named, const std::optional<std::string>& tmpdir) {
  if (!named.empty()) return {named};
  std::vector<std::string> found;
  if (tmpdir && tmpdir->starts_with('/')) found.push_back(*tmpdir);
  found.emplace_back("/dev/shm");
  return found;
}

ChosenPlace choose_place(const std::vector<PlaceFacts>& places, std::uint64_t bytes, bool executed) {
  std::vector<std::string> problems;
  for (const PlaceFacts& place : places) {
    std::string problem = place.problem;
    if (problem.empty() && executed && !place.executes) problem = "is mounted noexec";
    if (problem.empty() && place.free < bytes + k_margin)
      problem = fmt::format("has {} free, {} are needed", facts::describe_bytes(place.free),
                            facts::describe_bytes(bytes + k_margin));
    if (problem.empty()) return {place.folder, {}};
    problems.push_back(printable(place.folder) + " " + problem);
  }
  return {{}, join(problems, "; ")};
}

std::string user_folder(unsigned user) { return fmt::format("ddprun-stage-{}", user); }

std::string copy_folder(const std::string& source, const std::string& identity) {
  return fmt::format("{}-{}", name_of(source), identity);
}

}  // namespace ddprun::staging
