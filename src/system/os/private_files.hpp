// Folders, files and named pipes for this user alone, whatever the umask is.
#pragma once

#include <sys/stat.h>
#include <string>

#include "os/descriptors.hpp"

namespace ddprun::os {

// A named pipe that others write requests into.
class NamedPipe {
 public:
  // Makes it, for this user only; one that an earlier run left there is replaced. Throws Error when there is
  // something else at `path`, or it cannot be made.
  explicit NamedPipe(std::string path);
  ~NamedPipe();  // removes it
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;

  const std::string& path() const { return path_; }
  // Returns the reading end, which does not block and has no end: this process holds a writer too.
  int descriptor() const { return descriptor_.get(); }

 private:
  std::string path_;
  Fd descriptor_;
};

// Makes it; 0, else errno, EEXIST where something of that name is there.
int make_private_folder(const std::string& path);

// Reports whether it is a folder of this user, and of no use to others.
bool is_private_folder(const std::string& path);
// Removes all below the path; a folder without write permission keeps what is in it.
void remove_below(const std::string& path, bool itself);

// Has `place` (link(2), rename(2)) give the name `path` to a file with this text that is on the disk under
// `temporary`, which is no name of anything then. 0, else errno.
int place_private_file(const std::string& path, const std::string& temporary, const std::string& text,
                       int (*place)(const char* temporary, const char* path));

// Returns the reason why a file is not this user's alone: "it belongs to user 0, not to user 1000"; empty: it
// is.
std::string why_not_private(const struct stat& status);

}  // namespace ddprun::os
