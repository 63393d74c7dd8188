// Writes a copy for --stage: files with their contents, permissions and times, and then its own paths.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptors.hpp"
#include "staging/manifest.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::copies {

class StageWriter {
 public:
  // Makes the folders, below or at `root`, which does not exist yet. Throws Error, here and below.
  StageWriter(std::string root, const staging::Manifest& manifest);
  // Writes the next part of the contents. Blocks of zeros become holes.
  void write(std::string_view bytes);
  // Finishes once all contents are written: links, permissions and times.
  void finish(const std::vector<staging::Mapping>& mappings);

 private:
  void open_next();
  void close_file();
  void write_block(std::string_view bytes);

  std::string root_;
  const staging::Manifest& manifest_;
  std::size_t entry_ = 0;  // the next to be opened
  os::Fd file_;
  std::string path_;
  std::uint64_t at_ = 0;    // in the file
  std::uint64_t size_ = 0;  // length of the file
};

// Leads what names the source to the copy, and keeps what was there in `originals`. Throws Error.
void rewrite_copy(const std::string& root, const std::string& originals, const staging::Manifest& manifest,
                  const std::vector<staging::Mapping>& mappings);

// Reports whether the copy has what the list says, by size and permissions, and nothing else except what a
// running Python adds (__pycache__).
bool is_like(const std::string& root, const staging::Manifest& manifest);

// Unpacks below an existing folder. Returns an empty text, or why it failed: "tar exits with 2".
std::string unpack(const std::string& archive, const std::string& folder);

}  // namespace ddprun::copies
