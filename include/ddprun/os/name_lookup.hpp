// Looks a host name up in a short-lived child process: the C library's resolver blocks for as long as a name
// server likes, and a thread that waits in it could not be ended.
#pragma once

#include <sys/types.h>

#include <string>

#include "ddprun/os/fd.hpp"

namespace ddprun {

class NameLookupChild {
 public:
  // Throws Error when there can be no child. Must be called while this process has one thread.
  explicit NameLookupChild(const std::string& name);
  ~NameLookupChild();  // ends the look-up
  NameLookupChild(const NameLookupChild&) = delete;
  NameLookupChild& operator=(const NameLookupChild&) = delete;

  // Gives numeric addresses, one a line, in the resolver's order, or one line "error: <why>"; then its end.
  int descriptor() const { return answer_.get(); }

 private:
  Fd answer_;
  pid_t child_ = -1;
};

}  // namespace ddprun
