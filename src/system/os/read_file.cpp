#include "os/read_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

namespace {

// Opens a regular file; errno tells why not (EINVAL: it is something else).
Fd open_regular(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return {};
  if (S_ISREG(status.st_mode)) return file;
  errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  return {};
}

// Reads until the end or `count` bytes; false leaves errno.
bool read_up_to(const Fd& file, std::size_t count, std::string& contents) {
  while (contents.size() < count) {
    char buffer[4096];
    const ssize_t got = ::read(file.get(), buffer, std::min(sizeof buffer, count - contents.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    contents.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

std::optional<std::string> try_read_file(const std::string& path, std::size_t limit) {
  const Fd file = open_regular(path);
  std::string contents;
  if (!file || !read_up_to(file, limit + 1, contents) || contents.size() > limit) return std::nullopt;
  return contents;
}

std::string read_file(const std::string& path, std::size_t limit) {
  const Fd file = open_regular(path);
  std::string contents;
  if (!file || !read_up_to(file, limit + 1, contents)) {
    const char* const why = errno == EINVAL ? "it is not a regular file" : std::strerror(errno);
    throw UsageError(fmt::format("cannot read {}: {}", printable(path), to_lower(why)));
  }
  if (contents.size() > limit) {
    throw UsageError(fmt::format("cannot read {}: it is longer than {} bytes", printable(path), limit));
  }
  return contents;
}

std::string read_head(const std::string& path, std::size_t count) {
  const Fd file = open_regular(path);
  std::string contents;
  if (!file || !read_up_to(file, count, contents)) return {};
  return contents;
}

std::string read_tail(const std::string& path, std::size_t count) {
  const Fd file = open_regular(path);
  std::string contents;
  if (!file) return contents;
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  ::lseek(file.get(), std::max<off_t>(0, size - static_cast<off_t>(count)), SEEK_SET);
  read_up_to(file, count, contents);
  return contents;
}

std::optional<std::int64_t> last_written(const std::string& path) {
  struct stat entry {};
  if (::stat(path.c_str(), &entry) != 0) return std::nullopt;
  return entry.st_mtim.tv_sec * std::int64_t{1000} + entry.st_mtim.tv_nsec / 1000000;
}

std::string read_standard_input(std::size_t limit) {
  const Fd input(::dup(STDIN_FILENO));
  std::string contents;
  if (!input || !read_up_to(input, limit + 1, contents))
    throw Error(fmt::format("cannot read standard input: {}", to_lower(std::strerror(errno))));
  if (contents.size() > limit)
    throw Error(fmt::format("cannot read standard input: it is longer than {} bytes", limit));
  return contents;
}

std::vector<std::string> list_folder(const std::string& path, bool hidden) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) return names;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name[0] != '.' || (hidden && name != "." && name != "..")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ddprun::os
