// A named pipe that others write requests into.
#pragma once

#include <string>

#include "os/fd.hpp"

namespace ddprun::os {

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

}  // namespace ddprun::os
