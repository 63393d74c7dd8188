#include "os/system_failure.hpp"

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace ddprun::os {

std::string describe_errno(int error) {
  std::string text = std::strerror(error);
  if (text.size() > 1 && text[1] >= 'a') text[0] = to_lower(text.substr(0, 1))[0];  // not of "RPC ..."
  return text;
}

Error system_failure(const std::string& what, int error) {
  std::string hint;
  if (error == EMFILE) hint = "raise the limit of open files: ulimit -n";
  if (error == EAGAIN || error == ENOMEM)
    hint = "the limit of processes (ulimit -u) or of memory may be reached";
  return Error(what + ": " + describe_errno(error), hint);
}

}  // namespace ddprun::os
