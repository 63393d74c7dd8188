#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/path_walk.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_no_reader = "no process has this named pipe open to read";
constexpr Milliseconds k_lock_limit{2000};
constexpr std::size_t k_longest_list = 1024 * 1024;  // longest file that is searched for a line

std::string name_beside(const std::string& name) {
  std::array<unsigned char, 6> bytes{};
  // O_EXCL is what counts: a name without chance is only easier to be in the way of.
  if (::getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK) < 0) bytes.fill(0);
  return fmt::format("{}.{:02x}.tmp", name, fmt::join(bytes, ""));
}

// Destination of a name.
struct Destination {
  explicit Destination(const std::string& path) : walked(walk_path(path)) {
    if (!walked.problem.empty()) return;
    struct stat own {};
    struct stat status {};
    ::fstat(walked.folder.get(), &folder);
    if (walked.in_proc) {
      const bool ours = ::stat("/proc/self/fd", &own) == 0 && own.st_ino == folder.st_ino;
      if (ours) descriptor = static_cast<int>(parse_integer(walked.name).value_or(-1));
      return;
    }
    replaceable = ::fstatat(walked.folder.get(), walked.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
                  S_ISREG(status.st_mode);
  }

  WalkedPath walked;
  struct stat folder {};
  int descriptor = -1;       // descriptor of this process that the name stands for
  bool replaceable = false;  // a file that another one can be renamed to, or none yet
};

// Returns the reason against the file as opened, whatever had the name before; empty: none.
std::string why_refused(const Destination& destination, const Fd& file) {
  struct stat status {};
  if (destination.walked.in_proc || ::fstat(file.get(), &status) != 0) return {};
  return why_foreign(destination.folder, status);
}

OpenedFile open_to_append(const Destination& destination, int flags = O_WRONLY) {
  OpenedFile opened;
  if (!destination.walked.problem.empty())
    return opened.problem = destination.walked.problem, std::move(opened);
  if (destination.descriptor >= 0) {
    opened.file = Fd(::fcntl(destination.descriptor, F_DUPFD_CLOEXEC, 0));
  } else {
    flags |= O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    if (!destination.walked.in_proc) flags |= O_NOFOLLOW;
    opened.file = Fd(::openat(destination.walked.folder.get(), destination.walked.name.c_str(), flags, 0666));
  }
  opened.lacks_reader = !opened.file && errno == ENXIO;
  if (!opened.file) opened.problem = opened.lacks_reader ? k_no_reader : describe_errno(errno);
  if (opened.file) opened.problem = why_refused(destination, opened.file);
  if (!opened.problem.empty()) opened.file.close();
  return opened;
}

std::string append(const Destination& destination, std::string_view text) {
  const OpenedFile opened = open_to_append(destination);
  if (!opened.file) return opened.problem;
  const int error = write_waiting(opened.file, text, nullptr);
  return error == 0 ? "" : error == ETIME ? k_not_read : describe_errno(error);
}

std::string replace(const Destination& destination, std::string_view text) {
  if (!destination.walked.problem.empty()) return destination.walked.problem;
  if (!destination.replaceable) return append(destination, text);
  const int folder = destination.walked.folder.get();
  const std::string& name = destination.walked.name;
  const std::string beside = name_beside(name);
  const Fd file(::openat(folder, beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) return describe_errno(errno);
  if (write_whole(file.get(), text) && ::renameat(folder, beside.c_str(), folder, name.c_str()) == 0)
    return {};
  const int error = errno;
  ::unlinkat(folder, beside.c_str(), 0);
  return describe_errno(error);
}

bool is_named(const Destination& destination, const Fd& file) {
  struct stat named {};
  struct stat opened {};
  return ::fstatat(destination.walked.folder.get(), destination.walked.name.c_str(), &named,
                   AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file.get(), &opened) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// The file as it is now, locked; another process that holds the lock may rename a new one to its name. One
// that dies or hangs does not hold us up for long.
OpenedFile open_locked(const Destination& destination) {
  const TimePoint deadline = now() + k_lock_limit;
  for (;;) {
    OpenedFile opened = open_to_append(destination, O_RDWR);
    if (!opened.file || now() >= deadline) return opened;
    if (::flock(opened.file.get(), LOCK_EX | LOCK_NB) == 0 && is_named(destination, opened.file))
      return opened;
    ::usleep(1000);
  }
}

}  // namespace

OpenedFile open_to_append(const std::string& path) { return open_to_append(Destination(path)); }

bool is_replaceable(const std::string& path) { return Destination(path).replaceable; }

std::string replace_file(const std::string& path, std::string_view text) {
  return replace(Destination(path), text);
}

void write_file(const std::string& path, std::string_view text) {
  if (const std::string why = replace_file(path, text); !why.empty())
    throw Error("cannot write " + printable(path) + ": " + why);
}

std::string update_file(const std::string& path, std::size_t limit,
                        const std::function<std::string(const std::string& before)>& make) {
  const Destination destination(path);
  if (!destination.walked.problem.empty() || !destination.replaceable) return replace(destination, make({}));
  const OpenedFile locked = open_locked(destination);
  if (!locked.file) return locked.problem;
  std::string before(limit, '\0');
  const ssize_t length = ::pread(locked.file.get(), before.data(), before.size(), 0);
  before.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return replace(destination, make(before));
}

std::string add_line(const std::string& path, const std::string& line) {
  const auto before = try_read_file(path, k_longest_list);
  if (before && ("\n" + *before).find("\n" + line + "\n") != std::string::npos) return {};
  return append(Destination(path), line + "\n");
}

int write_waiting(const Fd& file, std::string_view text, const std::function<void()>& waits) {
  while (!text.empty()) {
    if (!wait_until_ready(file.get(), now(), POLLOUT)) {
      if (waits) waits();
      const TimePoint deadline = waits ? TimePoint::max() : now() + k_reader_limit;
      if (!wait_until_ready(file.get(), deadline, POLLOUT)) return ETIME;
    }
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace ddprun::os
