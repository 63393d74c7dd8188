#include "copies/stage_reader.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/system_failure.hpp"

namespace ddprun::copies {

namespace {

using staging::Entry;
using staging::Kind;
using staging::Manifest;

constexpr std::size_t k_threads = 16;
constexpr std::size_t k_part = std::size_t{1} << 20U;
constexpr std::size_t k_parts_ahead = 64;  // parts of k_part bytes at most

Error cannot_read(const std::string& path, int error) {
  return os::system_failure("cannot read " + printable(path), error);
}

// ---- the list

struct Seen {
  Entry entry;
  dev_t device = 0;
  ino_t number = 0;
  nlink_t links = 1;
};

std::string read_link(const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) throw cannot_read(path, errno);
  return {target.data(), static_cast<std::size_t>(size)};
}

std::optional<Seen> look_at(const std::string& path, std::string below) {
  struct stat status {};
  const int failed = below.empty() ? ::stat(path.c_str(), &status) : ::lstat(path.c_str(), &status);
  if (failed != 0) throw cannot_read(path, errno);
  Seen seen;
  seen.entry.path = std::move(below);
  seen.entry.mode = status.st_mode & 01777U;
  seen.entry.seconds = status.st_mtim.tv_sec;
  seen.entry.nanoseconds = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  seen.device = status.st_dev;
  seen.number = status.st_ino;
  seen.links = status.st_nlink;
  if (S_ISDIR(status.st_mode)) {
    seen.entry.kind = Kind::folder;
  } else if (S_ISLNK(status.st_mode)) {
    seen.entry.kind = Kind::symbolic_link;
    seen.entry.target = read_link(path);
  } else if (S_ISREG(status.st_mode)) {
    seen.entry.size = static_cast<std::uint64_t>(status.st_size);
  } else {
    return std::nullopt;
  }
  return seen;
}

// Folders that wait to be read, and what was seen; each thread takes a folder at a time.
class Walk {
 public:
  explicit Walk(std::string root) : root_(std::move(root)) {}

  std::vector<Seen> run() {
    note(*look_at_root());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < k_threads; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(seen_);
  }

 private:
  std::optional<Seen> look_at_root() const {
    auto seen = look_at(root_, "");
    if (!seen) throw Error("cannot stage " + printable(root_) + ": it is neither a file nor a folder");
    return seen;
  }

  void note(Seen seen) {
    if (seen.entry.kind == Kind::folder) waiting_.push_back(seen.entry.path);
    seen_.push_back(std::move(seen));
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return failure_ || !waiting_.empty() || busy_ == 0; });
      if (failure_ || waiting_.empty()) return;
      const std::string folder = std::move(waiting_.front());
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      std::vector<Seen> found;
      std::exception_ptr failure;
      try {
        found = read_folder(folder);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --busy_;
      if (failure) failure_ = failure;
      for (Seen& each : found) note(std::move(each));
      changed_.notify_all();
    }
  }

  std::vector<Seen> read_folder(const std::string& below) const {
    const std::string path = below.empty() ? root_ : root_ + "/" + below;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) throw cannot_read(path, errno);
    std::vector<Seen> found;
    while (const dirent* const each = ::readdir(folder.get())) {
      const std::string name = each->d_name;
      if (name == "." || name == "..") continue;
      auto seen = look_at(path + "/" + name, below.empty() ? name : below + "/" + name);
      if (seen) found.push_back(std::move(*seen));
    }
    return found;
  }

  std::string root_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::vector<Seen> seen_;
  std::size_t busy_ = 0;
  std::exception_ptr failure_;
};

// ---- the contents

os::Fd open_file(const std::string& path) {
  os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw cannot_read(path, errno);
  return file;
}

std::string read_part(const os::Fd& file, const std::string& path, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(file.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_read(path, errno);
    if (count == 0) throw Error(printable(path) + " has changed while it was copied");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void check_unchanged(const os::Fd& file, const std::string& path, const Entry& entry) {
  struct stat status {};
  const bool same = ::fstat(file.get(), &status) == 0 &&
                    static_cast<std::uint64_t>(status.st_size) == entry.size &&
                    status.st_mtim.tv_sec == entry.seconds &&
                    static_cast<std::uint32_t>(status.st_mtim.tv_nsec) == entry.nanoseconds;
  if (!same) throw Error(printable(path) + " has changed while it was copied");
}

struct Part {
  std::size_t entry;
  std::uint64_t offset;  // in the file
  std::size_t size;
};

std::vector<Part> parts_of(const Manifest& manifest) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < manifest.entries.size(); ++i) {
    const Entry& entry = manifest.entries[i];
    if (entry.kind != Kind::file) continue;
    for (std::uint64_t at = 0; at < entry.size; at += k_part)
      parts.push_back({i, at, static_cast<std::size_t>(std::min<std::uint64_t>(k_part, entry.size - at))});
  }
  return parts;
}

// Threads fill the parts in order, at most k_parts_ahead before the one that is taken.
class ReadAhead {
 public:
  ReadAhead(std::string root, const Manifest& manifest)
      : root_(std::move(root)), manifest_(manifest), parts_(parts_of(manifest)), read_(k_parts_ahead) {}
  ~ReadAhead() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(const std::function<void(std::string_view)>& take, const std::function<bool()>& stop) {
    for (std::size_t i = 0; i < std::min(k_threads, parts_.size()); ++i)
      threads_.emplace_back([this] { work(); });
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (stop()) throw Error("the job ends");
      take(wait_for(part));
    }
  }

 private:
  std::string wait_for(std::size_t part) {
    std::unique_lock lock(mutex_);
    auto& place = read_[part % k_parts_ahead];
    changed_.wait(lock, [&] { return failure_ || place; });
    if (!place) std::rethrow_exception(failure_);
    std::string bytes = std::move(*place);
    place.reset();
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    return bytes;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] {
        return ended_ || failure_ || next_ == parts_.size() || next_ < taken_ + k_parts_ahead;
      });
      if (ended_ || failure_ || next_ == parts_.size()) return;
      const std::size_t part = next_++;
      lock.unlock();
      std::optional<std::string> bytes;
      std::exception_ptr failure;
      try {
        bytes = read(parts_[part]);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      read_[part % k_parts_ahead] = std::move(bytes);
      changed_.notify_all();
    }
  }

  std::string read(const Part& part) const {
    const Entry& entry = manifest_.entries[part.entry];
    const std::string path = path_of(root_, entry);
    const os::Fd file = open_file(path);
    std::string bytes = read_part(file, path, part.offset, part.size);
    check_unchanged(file, path, entry);
    return bytes;
  }

  std::string root_;
  const Manifest& manifest_;
  std::vector<Part> parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> read_;
  std::size_t next_ = 0, taken_ = 0;
  std::exception_ptr failure_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Manifest read_stage_source(const std::string& source) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(source.c_str(), nullptr), std::free);
  if (!real) throw cannot_read(source, errno);
  Manifest manifest{source, real.get(), {}};
  std::vector<Seen> seen = Walk(manifest.real).run();
  std::ranges::sort(seen, {}, [](const Seen& each) -> const std::string& { return each.entry.path; });
  std::map<std::pair<dev_t, ino_t>, std::string> linked;
  for (Seen& each : seen) {
    if (each.entry.kind == Kind::file && each.links > 1) {
      const auto [first, is_new] = linked.try_emplace({each.device, each.number}, each.entry.path);
      if (!is_new) {
        each.entry.kind = Kind::hard_link;
        each.entry.size = 0;
        each.entry.target = first->second;
      }
    }
    manifest.entries.push_back(std::move(each.entry));
  }
  return manifest;
}

void stream_contents(const std::string& root, const Manifest& manifest,
                     const std::function<void(std::string_view)>& take, const std::function<bool()>& stop) {
  ReadAhead(root, manifest).run(take, stop);
}

std::string path_of(const std::string& root, const Entry& entry) {
  return entry.path.empty() ? root : root + "/" + entry.path;
}

ContentReader::ContentReader(std::string root, std::string originals, const Manifest& manifest)
    : root_(std::move(root)),
      originals_(std::move(originals)),
      manifest_(manifest),
      offsets_(staging::content_offsets(manifest)),
      entry_(manifest.entries.size()) {}

// Opens the copy first: once it is another file, the original is there.
void ContentReader::open(std::size_t entry) {
  const std::string path = path_of(root_, manifest_.entries[entry]);
  file_ = open_file(path);
  entry_ = entry;
  if (originals_.empty()) return;
  os::Fd original(::open(fmt::format("{}/{}", originals_, entry).c_str(), O_RDONLY | O_CLOEXEC));
  if (original) file_ = std::move(original);
}

std::string ContentReader::read(std::uint64_t offset, std::size_t most) {
  const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
  const auto entry = static_cast<std::size_t>(next - offsets_.begin()) - 1;
  if (entry >= manifest_.entries.size()) throw Error("there are no such contents");
  if (entry != entry_) open(entry);
  const std::uint64_t left = offsets_[entry + 1] - offset;
  return read_part(file_, path_of(root_, manifest_.entries[entry]), offset - offsets_[entry],
                   static_cast<std::size_t>(std::min<std::uint64_t>(most, left)));
}

}  // namespace ddprun::copies
