#include "os/private_folder.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace ddprun::os {

int make_private_folder(const std::string& path) {
  // With umask 777 it would be nobody's, not ours either, until its mode is changed: another ddprun may look
  // then.
  const mode_t before = ::umask(0077);
  const int result = ::mkdir(path.c_str(), 0700);
  const int error = errno;
  ::umask(before);
  return result == 0 ? 0 : error;
}

}  // namespace ddprun::os
