#include "staging/manifest.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::staging {

namespace {

constexpr std::string_view k_format = "ddprun stage 1";
constexpr std::uint64_t k_most_size = std::uint64_t{1} << 60U;

[[noreturn]] void fail() { throw Error("the list of the files to stage is damaged"); }

bool is_below(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos) return false;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

std::uint64_t number_up_to(Parts& parts, std::uint64_t most) {
  const std::uint64_t number = parts.number();
  if (number > most) fail();
  return number;
}

Entry read_entry(Parts& parts) {
  constexpr std::uint64_t k_most_permissions = 01777;
  Entry entry;
  entry.path = parts.text();
  entry.kind = static_cast<Kind>(number_up_to(parts, static_cast<std::uint64_t>(Kind::hard_link)));
  entry.mode = static_cast<std::uint32_t>(number_up_to(parts, k_most_permissions));
  entry.size = number_up_to(parts, k_most_size);
  entry.seconds = static_cast<std::int64_t>(parts.number());
  entry.nanoseconds = static_cast<std::uint32_t>(number_up_to(parts, 999999999));
  entry.target = parts.text();
  return entry;
}

// Checks that each is below a folder that stands before it, and none twice, so that nothing is written
// through a link.
void check_places(const Manifest& manifest) {
  std::set<std::string_view> folders, all;
  for (const Entry& entry : manifest.entries) {
    if (!all.insert(entry.path).second) fail();
    const bool root = &entry == &manifest.entries.front();
    if (root ? !entry.path.empty() || entry.kind > Kind::file : !is_below(entry.path)) fail();
    const std::size_t slash = entry.path.rfind('/');
    const std::string_view parent =
        std::string_view(entry.path).substr(0, slash == std::string::npos ? 0 : slash);
    if (!root && !folders.contains(parent)) fail();
    if (entry.kind == Kind::folder) folders.insert(entry.path);
    if (entry.kind == Kind::hard_link && !all.contains(entry.target)) fail();
  }
}

}  // namespace

void put_number(std::string& bytes, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>((number >> shift) & 0xffU));
}

void put_text(std::string& bytes, std::string_view text) {
  put_number(bytes, text.size());
  bytes += text;
}

std::uint64_t Parts::number() {
  constexpr std::size_t k_size = 8;
  if (rest_.size() < k_size) fail();
  std::uint64_t number = 0;
  for (const char byte : rest_.substr(0, k_size)) number = number << 8U | static_cast<unsigned char>(byte);
  rest_.remove_prefix(k_size);
  return number;
}

std::string Parts::text() {
  const std::uint64_t size = number();
  if (rest_.size() < size) fail();
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

std::string encode(const Manifest& manifest) {
  std::string bytes;
  put_text(bytes, k_format);
  put_text(bytes, manifest.source);
  put_text(bytes, manifest.real);
  for (const Entry& entry : manifest.entries) {
    put_text(bytes, entry.path);
    put_number(bytes, static_cast<std::uint64_t>(entry.kind));
    put_number(bytes, entry.mode);
    put_number(bytes, entry.size);
    put_number(bytes, static_cast<std::uint64_t>(entry.seconds));
    put_number(bytes, entry.nanoseconds);
    put_text(bytes, entry.target);
  }
  return bytes;
}

Manifest decode(std::string_view bytes) {
  Parts parts(bytes);
  if (parts.text() != k_format) fail();
  Manifest manifest{parts.text(), parts.text(), {}};
  if (!manifest.source.starts_with('/') || !is_below(name_of(manifest.source))) fail();
  while (!parts.at_end()) manifest.entries.push_back(read_entry(parts));
  std::uint64_t size = 0;
  for (const Entry& entry : manifest.entries) {
    size += entry.size;
    if (size > k_most_size) fail();
  }
  if (manifest.entries.empty()) fail();
  check_places(manifest);
  return manifest;
}

std::vector<std::uint64_t> content_offsets(const Manifest& manifest) {
  std::vector<std::uint64_t> offsets{0};
  for (const Entry& entry : manifest.entries)
    offsets.push_back(offsets.back() + (entry.kind == Kind::file ? entry.size : 0));
  return offsets;
}

std::uint64_t content_size(const Manifest& manifest) { return content_offsets(manifest).back(); }

std::size_t count_files(const Manifest& manifest) {
  return static_cast<std::size_t>(std::count_if(manifest.entries.begin(), manifest.entries.end(),
                                                [](const Entry& entry) { return entry.kind == Kind::file; }));
}

bool is_executed(const Manifest& manifest) {
  if (is_archive(manifest.source)) return true;
  constexpr std::uint32_t k_execute = 0111;
  return std::any_of(manifest.entries.begin(), manifest.entries.end(), [](const Entry& entry) {
    if (entry.kind != Kind::file || entry.path.empty()) return false;
    return (entry.mode & k_execute) != 0 || entry.path.find(".so") != std::string::npos;
  });
}

std::string name_of(const std::string& source) { return source.substr(source.rfind('/') + 1); }

bool is_archive(const std::string& source) {
  constexpr std::array k_endings{".tar",     ".tar.gz", ".tgz",    ".tar.zst", ".tzst",
                                 ".tar.bz2", ".tbz2",   ".tar.xz", ".txz",     ".tar.lz4"};
  return std::any_of(k_endings.begin(), k_endings.end(),
                     [&](const char* ending) { return source.ends_with(ending); });
}

}  // namespace ddprun::staging
