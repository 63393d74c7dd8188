// Place on a host where the copies of --stage are put.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::staging {

// Returns --stage-to alone if it is given; else TMPDIR, then /dev/shm.
std::vector<std::string> places(const std::string& named, const std::optional<std::string>& tmpdir);

struct PlaceFacts {
  std::string folder;
  std::string problem;  // reason not to use it: "no such file or directory", "is on nfs"
  std::uint64_t free = 0;
  bool executes = true;  // mounted without noexec
};

struct ChosenPlace {
  std::string folder;   // empty: none will do
  std::string problem;  // problem of each, then: "/dev/shm has 1.0 GiB free, 6.1 GiB are needed"
};
ChosenPlace choose_place(const std::vector<PlaceFacts>& places, std::uint64_t bytes, bool executed);

// Return the user's own folder below such a place: for all copies, then for one. `identity` is a hash.
std::string user_folder(unsigned user);
std::string copy_folder(const std::string& source, const std::string& identity);

}  // namespace ddprun::staging
