#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/text.hpp"
#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

std::string replace_file(const std::string& path, std::string_view text) {
  if (is_special(path)) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    return file && write_whole(file.get(), text) ? std::string() : describe_errno(errno);
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return describe_errno(errno);
  const bool written = write_whole(file.get(), text) && ::rename(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (!written) ::unlink(temporary.c_str());
  return written ? std::string() : describe_errno(error);
}

void write_file(const std::string& path, std::string_view text) {
  if (const std::string why = replace_file(path, text); !why.empty())
    throw Error(fmt::format("cannot write {}: {}", printable(path), why));
}

std::string append_line(const std::string& path, const std::string& line) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const std::string text = line + "\n";
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return describe_errno(errno);
  return {};
}

}  // namespace ddprun::os
