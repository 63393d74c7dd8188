#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace fs = std::filesystem;

namespace {

constexpr int k_most_links = 40;  // the kernel's limit

// Destination of a name.
struct Destination {
  std::string path;         // behind symbolic links
  int descriptor = -1;      // descriptor of this process, if the name stands for it
  bool replaceable = true;  // a file that another one can be renamed to, or none yet
};

Destination find_destination(const std::string& name) {
  std::error_code error;
  struct stat status {};
  Destination found{name};
  found.replaceable = ::stat(name.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  const fs::path own = fs::canonical("/proc/self/fd", error);
  for (int links = 0; links < k_most_links; ++links) {
    const fs::path path = found.path;
    const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
    if (folder.native().starts_with("/proc/")) {
      found.replaceable = false;  // its target may be a file that another process has open
      if (folder == own)
        found.descriptor = static_cast<int>(parse_integer(path.filename().native()).value_or(-1));
      break;
    }
    if (!fs::is_symlink(path, error)) break;
    found.path = path.parent_path() / fs::read_symlink(path, error);
  }
  return found;
}

Fd open_to_append(const Destination& destination) {
  if (destination.descriptor >= 0) return Fd(::fcntl(destination.descriptor, F_DUPFD_CLOEXEC, 0));
  return Fd(::open(destination.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
}

// Replaces the file's contents. Returns 0, or an errno.
int replace(const std::string& path, std::string_view text) {
  const Destination destination = find_destination(path);
  if (!destination.replaceable) {
    const Fd file = open_to_append(destination);
    return file && write_whole(file.get(), text) ? 0 : errno;
  }
  const std::string temporary = fmt::format("{}.{}.tmp", destination.path, ::getpid());
  const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return errno;
  if (write_whole(file.get(), text) && ::rename(temporary.c_str(), destination.path.c_str()) == 0) return 0;
  const int error = errno;
  ::unlink(temporary.c_str());
  return error;
}

}  // namespace

Fd open_to_append(const std::string& path) { return open_to_append(find_destination(path)); }

std::string replace_file(const std::string& path, std::string_view text) {
  const int error = replace(path, text);
  return error == 0 ? std::string() : describe_errno(error);
}

void write_file(const std::string& path, std::string_view text) {
  if (const int error = replace(path, text); error != 0)
    throw system_failure("cannot write " + printable(path), error);
}

std::string append_line(const std::string& path, const std::string& line) {
  const Fd file = open_to_append(path);
  const std::string text = line + "\n";
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return describe_errno(errno);
  return {};
}

}  // namespace ddprun::os
