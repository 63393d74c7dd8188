#include "os/private_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "os/fd.hpp"

namespace ddprun::os {

int make_private_folder(const std::string& path) {
  // With umask 777 no process could open it, not ours either, until its mode is changed: another ddprun may
  // look then.
  const mode_t before = ::umask(0077);
  const int result = ::mkdir(path.c_str(), 0700);
  const int error = errno;
  ::umask(before);
  return result == 0 ? 0 : error;
}

int place_private_file(const std::string& path, const std::string& temporary, const std::string& text,
                       int (*place)(const char* temporary, const char* path)) {
  ::unlink(temporary.c_str());
  const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return errno;
  const bool placed = ::fchmod(file.get(), 0600) == 0 &&
                      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                      ::fsync(file.get()) == 0 && place(temporary.c_str(), path.c_str()) == 0;
  const int error = placed ? 0 : errno;
  ::unlink(temporary.c_str());
  return error;
}

std::string why_not_private(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (status.st_uid != ::geteuid())
    return fmt::format("it belongs to user {}, not to user {}", status.st_uid, ::geteuid());
  if ((status.st_mode & 0177) != 0)
    return fmt::format("its mode is {:04o}, not 0600", status.st_mode & 07777);
  return {};
}

}  // namespace ddprun::os
