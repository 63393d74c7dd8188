#include "os/private_folder.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace ddprun::os {

int make_private_folder(const std::string& path) {
  constexpr mode_t k_mode = 0700;
  if (::mkdir(path.c_str(), k_mode) != 0) return errno;
  // With umask 777 it would be nobody's, not ours either.
  struct stat made {};
  const bool usable = ::lstat(path.c_str(), &made) == 0 && (made.st_mode & k_mode) == k_mode;
  return usable || ::chmod(path.c_str(), k_mode) == 0 ? 0 : errno;
}

}  // namespace ddprun::os
