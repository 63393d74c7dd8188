// Reads what --stage copies: the list of a source's files, and their contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptors.hpp"
#include "staging/manifest.hpp"

namespace ddprun::copies {

// Lists everything below `source`, by several threads, as a shared file system answers each question late.
// Sockets, pipes and devices are left out. Throws Error naming the file that cannot be read.
staging::Manifest read_stage_source(const std::string& source);

// Streams all contents in order, to one thread, read by several before it asks. `stop` ends it. Throws Error
// naming the file that cannot be read, or that is another than the list says: it has changed.
void stream_contents(const std::string& root, const staging::Manifest& manifest,
                     const std::function<void(std::string_view)>& take, const std::function<bool()>& stop);

// Parts of the contents as others ask for them; for one thread.
class ContentReader {
 public:
  // Makes a reader. `originals`: files that were rewritten in the copy, by their number in the list; empty:
  // there are none.
  ContentReader(std::string root, std::string originals, const staging::Manifest& manifest);
  // Reads from there on, at most that much, of one file; it must lie in the contents. Throws Error.
  std::string read(std::uint64_t offset, std::size_t most);

 private:
  void open(std::size_t entry);

  std::string root_, originals_;
  const staging::Manifest& manifest_;
  std::vector<std::uint64_t> offsets_;
  std::size_t entry_;
  os::Fd file_;
};

std::string path_of(const std::string& root, const staging::Entry& entry);

}  // namespace ddprun::copies
