// The file by which the coordinator tells the others where it listens, on a file system that all hosts share.
#pragma once

#include <optional>
#include <string>

namespace ddprun::os {

inline constexpr std::size_t k_max_rendezvous_file = 8192;

// A file that the coordinator makes. It appears whole (another name first, then rename), replaces what was
// left by a launch that was killed, has mode 0600, and goes with its owner.
class RendezvousFile {
 public:
  // Makes the file's folder (mode 0700) where it is missing. Throws Error with a hint.
  RendezvousFile(std::string path, std::string text);
  ~RendezvousFile();  // removes it, unless another launch has taken the name meanwhile
  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
  std::string text_;
};

struct RendezvousFileLook {
  std::optional<std::string> text;
  std::string problem;  // reason why it is not read, one sentence; both empty: there is none
};

// Looks at the file as a member. One that is not a regular file of our own user with mode 0600 (or 0400), is
// longer than k_max_rendezvous_file or reached through a symbolic link is not read.
RendezvousFileLook look_at_rendezvous_file(const std::string& path);

}  // namespace ddprun::os
