// Source of a copy of --stage: the list of its files, and their contents one after the other.
//
// The host that reads the source makes the list, once; it goes to the other hosts in front of the contents,
// which are those of all regular files in the order of the list. So a place in the contents is one number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::staging {

enum class Kind : std::uint8_t { folder, file, symbolic_link, hard_link };

struct Entry {
  std::string path;  // below the source; empty: the source itself
  Kind kind = Kind::file;
  std::uint32_t mode = 0;  // permissions, without set-user-ID and set-group-ID
  std::uint64_t size = 0;  // size of a file
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;  // modified at
  std::string target{};           // target of a symbolic link; path of the file that a hard link names
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Manifest {
  std::string source;  // path as it was named, absolute
  std::string real;    // the same without symbolic links
  // The source first, a folder before what is in it.
  std::vector<Entry> entries;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string encode(const Manifest& manifest);
// Throws Error for anything that encode() does not write, and for paths that lead out of the source.
Manifest decode(std::string_view bytes);

// Returns where the contents of each file begin, and their end behind the last; folders and links have none.
std::vector<std::uint64_t> content_offsets(const Manifest& manifest);
std::uint64_t content_size(const Manifest& manifest);
std::size_t count_files(const Manifest& manifest);
// Reports whether something in it is to be executed or loaded, which a file system can refuse (noexec).
bool is_executed(const Manifest& manifest);

// Returns its last part: "venv".
std::string name_of(const std::string& source);
// Reports whether it is a tar, compressed or not, by its name.
bool is_archive(const std::string& source);

// Append texts and numbers as encode() writes them.
void put_number(std::string& bytes, std::uint64_t number);
void put_text(std::string& bytes, std::string_view text);
class Parts {
 public:
  explicit Parts(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }
  std::uint64_t number();  // these throw Error where there is none
  std::string text();

 private:
  std::string_view rest_;
};

}  // namespace ddprun::staging
