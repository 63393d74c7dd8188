#include "staging/rewrite.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "staging/manifest.hpp"

namespace ddprun::staging {

namespace {

constexpr std::uint64_t k_longest_script = std::uint64_t{1} << 20U;

bool is_in(const std::string& path, const std::string& folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// Reports whether a path could continue with it.
bool is_part_of_name(char letter) {
  const bool alphanumeric = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                            (letter >= '0' && letter <= '9');
  return alphanumeric || letter == '_' || letter == '-' || letter == '.' || letter == '+';
}

struct Found {
  std::size_t at = std::string_view::npos;
  std::size_t size = 0;
  const Mapping* mapping = nullptr;
};

Found find_source(std::string_view text, std::size_t from, const std::string& source,
                  const Mapping& mapping) {
  for (std::size_t at = text.find(source, from); at != std::string_view::npos;
       at = text.find(source, at + 1)) {
    const bool begins = at == 0 || (!is_part_of_name(text[at - 1]) && text[at - 1] != '/');
    const std::size_t end = at + source.size();
    if (begins && (end == text.size() || !is_part_of_name(text[end]))) return {at, source.size(), &mapping};
  }
  return {};
}

// Finds the first one, and of those that begin there the longest.
Found find_any(std::string_view text, std::size_t from, const std::vector<Mapping>& mappings) {
  Found best;
  for (const Mapping& mapping : mappings) {
    for (const std::string& source : mapping.sources) {
      const Found found = find_source(text, from, source, mapping);
      if (found.at < best.at || (found.mapping != nullptr && found.at == best.at && found.size > best.size))
        best = found;
    }
  }
  return best;
}

}  // namespace

std::string plain_path(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..")
      parts.push_back(part);
    else if (!parts.empty())
      parts.pop_back();
  }
  return "/" + join(parts, "/");
}

std::string map_path(const std::string& path, const std::vector<Mapping>& mappings) {
  std::string best = path;
  std::size_t longest = 0;
  for (const Mapping& mapping : mappings) {
    for (const std::string& source : mapping.sources) {
      if (source.size() <= longest || !is_in(path, source)) continue;
      longest = source.size();
      best = mapping.copy + path.substr(source.size());
    }
  }
  return best;
}

std::string map_path_list(const std::string& list, const std::vector<Mapping>& mappings) {
  std::vector<std::string> parts = split(list, ':');
  for (std::string& part : parts) part = map_path(part, mappings);
  return join(parts, ":");
}

std::string map_text(std::string_view text, const std::vector<Mapping>& mappings) {
  std::string mapped;
  std::size_t from = 0;
  for (Found found = find_any(text, 0, mappings); found.mapping != nullptr;
       found = find_any(text, from, mappings)) {
    mapped += text.substr(from, found.at - from);
    mapped += found.mapping->copy;
    from = found.at + found.size;
  }
  return mapped + std::string(text.substr(from));
}

bool may_name_source(const Entry& entry) {
  if (entry.kind != Kind::file || entry.size > k_longest_script) return false;
  const std::size_t slash = entry.path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : entry.path.substr(0, slash);
  if (folder == "bin") return true;
  if (entry.path == "pyvenv.cfg") return true;
  return entry.path.ends_with(".pth") && folder.ends_with("/site-packages");
}

bool is_script(const Entry& entry, std::string_view begin) {
  if (!entry.path.starts_with("bin/")) return true;
  return begin.starts_with("#!") || entry.path.starts_with("bin/activate") ||
         entry.path.starts_with("bin/Activate");
}

std::string map_link(const Manifest& manifest, const Entry& entry, const std::vector<Mapping>& mappings) {
  if (entry.target.starts_with('/')) return map_path(entry.target, mappings);
  const std::string folder = manifest.real + "/" + entry.path.substr(0, entry.path.rfind('/') + 1);
  const std::string meant = plain_path(folder + "/" + entry.target);
  return is_in(meant, manifest.real) ? entry.target : map_path(meant, mappings);
}

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
