#include "copies/checkpoint_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "copies/stage_folder.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/private_files.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::copies {

namespace {

constexpr const char* k_kept = "/.keep";
constexpr Milliseconds k_lock_limit{5000}, k_lock_pause{20};  // another process that ends
constexpr std::size_t k_read = std::size_t{1} << 20U;
constexpr std::size_t k_job_digits = 16;

std::string user_folder_name() { return fmt::format("ddprun-{}", ::geteuid()); }

std::string short_hash(const std::string& text) {
  StageDigest digest;
  digest.add(text);
  return digest.text().substr(0, k_job_digits);
}

os::Fd lock_folder(const std::string& path) {
  os::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.close();
  struct stat opened {
  }, named{};
  if (folder && (::fstat(folder.get(), &opened) != 0 || ::lstat(path.c_str(), &named) != 0 ||
                 opened.st_ino != named.st_ino))
    folder.close();
  return folder;
}

bool is_kept(const std::string& path) { return ::access((path + k_kept).c_str(), F_OK) == 0; }

void mark(const std::string& path, bool keep) {
  if (keep)
    os::Fd(::open((path + k_kept).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)).close();
  else
    ::unlink((path + k_kept).c_str());
}

FileStamp stamp_of(const struct stat& status) {
  constexpr std::int64_t k_second = 1000000000;
  return {status.st_ino, static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec * k_second + status.st_mtim.tv_nsec};
}

bool is_own(const struct stat& status, mode_t kind) {
  return (status.st_mode & S_IFMT) == kind && status.st_uid == ::geteuid() && (status.st_mode & 022U) == 0;
}

}  // namespace

CheckpointFolder::CheckpointFolder(const std::string& place, const std::string& key, int agent)
    : place_(place),
      user_folder_(place + "/" + user_folder_name()),
      job_(fmt::format("checkpoints-{}-", short_hash(key))),
      path_(fmt::format("{}/{}{}", user_folder_, job_, agent)) {}

void CheckpointFolder::open(bool keep) {
  const staging::PlaceFacts facts = look_at_place(place_, user_folder_name());
  if (!facts.problem.empty()) throw Error(fmt::format("{} {}", printable(place_), facts.problem));
  sweep(false);
  take_over();
  for (const TimePoint limit = os::now() + k_lock_limit;; std::this_thread::sleep_for(k_lock_pause)) {
    const int error = os::make_private_folder(path_);
    if (error == ENOENT) os::make_private_folder(user_folder_);  // another agent was the last one in it
    if (error != 0 && error != EEXIST && error != ENOENT)
      throw os::system_failure("cannot create " + printable(path_), error);
    if (error != ENOENT && !os::is_private_folder(path_))
      throw Error(printable(path_) + " is not this user's alone");
    if (folder_ = lock_folder(path_); folder_) break;
    if (os::now() > limit) throw Error(printable(path_) + " is used by another process");
  }
  if (!is_kept(path_)) os::remove_below(path_, false);
  mark(path_, keep);
}

void CheckpointFolder::take_over() const {
  if (::access(path_.c_str(), F_OK) == 0) return;
  for (const std::string& name : os::list_folder(user_folder_)) {
    const std::string kept = user_folder_ + "/" + name;
    if (!name.starts_with(job_)) continue;
    const os::Fd locked = lock_folder(kept);
    if (locked && os::is_private_folder(kept) && is_kept(kept) && ::rename(kept.c_str(), path_.c_str()) == 0)
      return;
  }
}

void CheckpointFolder::sweep(bool of_job) const {
  for (const std::string& name : os::list_folder(user_folder_)) {
    const std::string path = user_folder_ + "/" + name;
    if (!name.starts_with("checkpoints-") || (is_kept(path) && !(of_job && name.starts_with(job_)))) continue;
    if (const os::Fd locked = lock_folder(path); locked) os::remove_below(path, true);
  }
}

void CheckpointFolder::leave(bool keep) {
  if (!folder_) return;
  mark(path_, keep);
  // Threads may still write there.
  for (int times = 0; !keep && ::access(path_.c_str(), F_OK) == 0 && times < 100; ++times)
    os::remove_below(path_, true);
  folder_.close();
  if (!keep) sweep(true);
  ::rmdir(user_folder_.c_str());  // the last one
}

std::vector<StampedFile> list_own_files(const std::string& folder) {
  std::vector<StampedFile> files;
  const os::Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0 || !is_own(status, S_IFDIR)) return files;
  const int copy = ::fcntl(opened.get(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(copy), ::closedir);
  while (const dirent* const each = entries ? ::readdir(entries.get()) : nullptr) {
    if (::fstatat(opened.get(), each->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && is_own(status, S_IFREG))
      files.push_back({each->d_name, stamp_of(status)});
  }
  std::ranges::sort(files, {}, &StampedFile::name);
  return files;
}

OpenedOwnFile open_own_file(const std::string& path) {
  OpenedOwnFile opened{os::Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)), {}};
  struct stat status {};
  if (!opened.file || ::fstat(opened.file.get(), &status) != 0 || !is_own(status, S_IFREG)) return {};
  opened.stamp = stamp_of(status);
  return opened;
}

std::optional<std::string> read_own_file(const std::string& path, std::size_t limit) {
  const OpenedOwnFile opened = open_own_file(path);
  std::string text, part;
  if (!opened.file || opened.stamp.bytes > limit) return std::nullopt;
  while (text.size() < opened.stamp.bytes && read_part(opened.file, text.size(), k_read, part)) text += part;
  return text;
}

bool read_part(const os::Fd& file, std::uint64_t offset, std::size_t most, std::string& buffer) {
  buffer.resize(most);
  const ssize_t count = ::pread(file.get(), buffer.data(), most, static_cast<off_t>(offset));
  buffer.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

std::optional<std::string> read_hashed(const OpenedOwnFile& file,
                                       const std::function<bool(std::string_view part)>& take) {
  StageDigest digest;
  std::string part;
  for (std::uint64_t at = 0; at < file.stamp.bytes; at += part.size()) {
    if (!read_part(file.file, at, k_read, part) || !take(part)) return std::nullopt;
    digest.add(part);
  }
  struct stat status {};
  if (::fstat(file.file.get(), &status) != 0 || stamp_of(status) != file.stamp) return std::nullopt;
  return digest.text();
}

int make_step_folder(const std::string& path) {
  const int error = os::make_private_folder(path);
  return error == EEXIST && os::is_private_folder(path) ? 0 : error;
}

NewFile::NewFile(const std::string& folder, const std::string& name) : path_(folder + "/" + name) {
  static std::atomic<unsigned> number = 0;
  temporary_ = fmt::format("{}/.{}.{}-{}", folder, name, ::getpid(), ++number);
  file_ = os::Fd(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) throw os::system_failure("cannot create " + printable(path_), errno);
}

NewFile::~NewFile() {
  if (file_) ::unlink(temporary_.c_str());
}

void NewFile::write(std::string_view bytes) {
  if (!os::write_whole(file_.get(), bytes))
    throw os::system_failure("cannot write " + printable(path_), errno);
}

void NewFile::finish(bool durable) {
  if ((durable && ::fsync(file_.get()) != 0) || ::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw os::system_failure("cannot write " + printable(path_), errno);
  file_.close();
}

void sync_folder(const std::string& path) {
  const os::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

}  // namespace ddprun::copies
