#include "os/files/rendezvous_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/fd.hpp"
#include "os/machine/capture_network.hpp"
#include "os/private_folder.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

struct PathParts {
  std::string folder;
  std::string name;
};

PathParts parts_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

[[noreturn]] void refuse(const std::string& path, int error) {
  throw Error(fmt::format("cannot make the rendezvous file {}: {}", printable(path), describe_errno(error)),
              "name a folder that all hosts share with --rdzv-dir");
}

}  // namespace

RendezvousFile::RendezvousFile(std::string path, std::string text)
    : path_(std::move(path)), text_(std::move(text)) {
  const PathParts parts = parts_of(path_);
  const int folder = make_private_folder(parts.folder);
  if (folder != 0 && folder != EEXIST) refuse(path_, folder);
  const std::string temporary = fmt::format("{}.{}.{}", path_, capture_host_name(), ::getpid());
  ::unlink(temporary.c_str());
  const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) refuse(path_, errno);
  const bool written =
      ::fchmod(file.get(), 0600) == 0 &&
      ::write(file.get(), text_.data(), text_.size()) == static_cast<ssize_t>(text_.size()) &&
      ::fsync(file.get()) == 0 && ::rename(temporary.c_str(), path_.c_str()) == 0;
  const int error = errno;
  if (!written) {
    ::unlink(temporary.c_str());
    refuse(path_, error);
  }
}

RendezvousFile::~RendezvousFile() {
  if (look_at_rendezvous_file(path_).text == text_) ::unlink(path_.c_str());
}

RendezvousFileLook look_at_rendezvous_file(const std::string& path) {
  const PathParts parts = parts_of(path);
  // An NFS client may remember for half a minute that there was no such file; opening the folder makes it ask
  // the server whether that is still so (close-to-open consistency, nfs(5)).
  const Fd folder(::open(parts.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return {{}, errno == ENOENT ? std::string() : fmt::format("its folder: {}", describe_errno(errno))};
  }
  const Fd file(
      ::openat(folder.get(), parts.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  if (!file) {
    if (errno == ENOENT || errno == ESTALE) return {};
    return {{}, errno == ELOOP ? "it is a symbolic link" : describe_errno(errno)};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {{}, describe_errno(errno)};
  if (!S_ISREG(status.st_mode)) return {{}, "it is not a regular file"};
  if (status.st_uid != ::geteuid()) {
    return {{}, fmt::format("it belongs to user {}, not to user {}", status.st_uid, ::geteuid())};
  }
  if ((status.st_mode & 0177) != 0) {
    return {{}, fmt::format("its mode is {:04o}, not 0600", status.st_mode & 07777)};
  }
  std::string text(k_max_rendezvous_file + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return {{}, describe_errno(errno)};
  if (static_cast<std::size_t>(got) > k_max_rendezvous_file) {
    return {{}, fmt::format("it is longer than {} bytes", k_max_rendezvous_file)};
  }
  text.resize(static_cast<std::size_t>(got));
  return {std::move(text), {}};
}

}  // namespace ddprun::os
