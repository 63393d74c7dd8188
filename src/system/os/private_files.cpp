#include "os/private_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <memory>
#include <utility>

#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

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

bool is_private_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & 077U) == 0;
}

void remove_below(const std::string& path, bool itself) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISDIR(status.st_mode)) return void(::unlink(path.c_str()));
  if ((status.st_mode & 0700U) != 0700U) ::chmod(path.c_str(), 0700);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  while (const dirent* const each = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string name = each->d_name;
    if (name != "." && name != "..") remove_below(path + "/" + name, true);
  }
  if (itself) ::rmdir(path.c_str());
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

NamedPipe::NamedPipe(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) ::unlink(path_.c_str());
  if (::mkfifo(path_.c_str(), 0600) != 0)
    throw system_failure("cannot create the named pipe " + path_, errno);
  descriptor_ = Fd(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (descriptor_) return;
  const int error = errno;
  ::unlink(path_.c_str());
  throw system_failure("cannot open the named pipe " + path_, error);
}

NamedPipe::~NamedPipe() { ::unlink(path_.c_str()); }

}  // namespace ddprun::os
