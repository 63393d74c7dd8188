// Rewriting of paths that lead to the source of a copy, so that they lead to the copy.
// Such paths are in variables, in the first word of a command, and in those files of a Python environment
// that name its own place.
//
// Other files that name the source (compiled files, .py files, data) are left unchanged. They still work, as
// the source is still there; it is read from the shared file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "staging/manifest.hpp"

namespace ddprun::staging {

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

}  // namespace ddprun::staging
