// Place on a host where the copies of --stage are put, and rewriting of paths so that they lead to the copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "staging/manifest.hpp"

namespace ddprun::staging {

// Rewriting of paths that lead to the source of a copy, so that they lead to the copy.
// Such paths are in variables, in the first word of a command, and in those files of a Python environment
// that name its own place.
//
// Other files that name the source (compiled files, .py files, data) are left unchanged. They still work, as
// the source is still there; it is read from the shared file system.

struct Mapping {
  std::vector<std::string> sources;  // spellings of one path, absolute
  std::string copy;
  friend bool operator==(const Mapping&, const Mapping&) = default;
};

// Returns the path without "." and ".." and slashes too many, as far as that follows from the text; absolute.
std::string plain_path(const std::string& path);
// Maps a source, or a path below one; any other stays.
std::string map_path(const std::string& path, const std::vector<Mapping>& mappings);
// Maps each part of "a:b:c" likewise.
std::string map_path_list(const std::string& list, const std::vector<Mapping>& mappings);
// Maps each place of a text that names such a path.
std::string map_text(std::string_view text, const std::vector<Mapping>& mappings);

// Reports whether map_text() is for this file, judged by its place and size: pyvenv.cfg, *.pth of
// site-packages, scripts of bin.
bool may_name_source(const Entry& entry);
// Reports whether a file of bin is a script by its first two bytes, or one for the shell to read (activate).
bool is_script(const Entry& entry, std::string_view begin);

// Returns the target of the copy's link: one that leads out of the source by a relative path would lead
// elsewhere.
std::string map_link(const Manifest& manifest, const Entry& entry, const std::vector<Mapping>& mappings);

// Place on a host where the copies of --stage are put.

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
