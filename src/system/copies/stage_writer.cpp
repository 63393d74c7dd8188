#include "copies/stage_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "copies/stage_reader.hpp"
#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

extern char** environ;

namespace ddprun::copies {

namespace {

using staging::Entry;
using staging::Kind;
using staging::Manifest;

constexpr std::size_t k_block = 65536;
constexpr mode_t k_while_written = 0700;

Error cannot_write(const std::string& path, int error) {
  return os::system_failure("cannot write " + printable(path), error);
}

void check(int result, const std::string& path) {
  if (result != 0) throw cannot_write(path, errno);
}

bool is_zero(std::string_view bytes) {
  return bytes.front() == '\0' && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

void write_whole_at(const os::Fd& file, const std::string& path, std::string_view bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_write(path, errno);
    at += static_cast<std::uint64_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

os::Fd create_file(const std::string& path) {
  os::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) throw cannot_write(path, errno);
  return file;
}

std::array<timespec, 2> times_of(const Entry& entry) {
  const timespec modified{static_cast<time_t>(entry.seconds), static_cast<long>(entry.nanoseconds)};
  return {modified, modified};
}

void set_status(const os::Fd& file, const std::string& path, const Entry& entry) {
  check(::fchmod(file.get(), entry.mode), path);
  check(::futimens(file.get(), times_of(entry).data()), path);
}

void make_link(const std::string& root, const Manifest& manifest, const Entry& entry,
               const std::vector<staging::Mapping>& mappings) {
  const std::string path = path_of(root, entry);
  if (entry.kind == Kind::hard_link)
    return check(::link((root + "/" + entry.target).c_str(), path.c_str()), path);
  check(::symlink(staging::map_link(manifest, entry, mappings).c_str(), path.c_str()), path);
  // NOLINTNEXTLINE(bugprone-unused-return-value): a link's time is of no use to anybody
  (void)::utimensat(AT_FDCWD, path.c_str(), times_of(entry).data(), AT_SYMLINK_NOFOLLOW);
}

// A folder made writable for a moment, if need be: the source may be read-only.
class OpenedFolder {
 public:
  explicit OpenedFolder(std::string path) : path_(std::move(path)) {
    struct stat status {};
    check(::stat(path_.c_str(), &status), path_);
    mode_ = status.st_mode & 07777U;
    times_ = {status.st_atim, status.st_mtim};
    check(::chmod(path_.c_str(), mode_ | k_while_written), path_);
  }
  OpenedFolder(const OpenedFolder&) = delete;
  OpenedFolder& operator=(const OpenedFolder&) = delete;
  ~OpenedFolder() {
    ::chmod(path_.c_str(), mode_);
    (void)::utimensat(AT_FDCWD, path_.c_str(), times_.data(), 0);
  }

 private:
  std::string path_;
  mode_t mode_ = 0;
  std::array<timespec, 2> times_{};
};

void rewrite_file(const std::string& root, const std::string& original, const Entry& entry,
                  const std::string& text, const std::string& mapped) {
  const std::string path = path_of(root, entry), beside = path + ".ddprun-stage";
  if (::access(original.c_str(), F_OK) != 0) write_whole_at(create_file(original), original, text, 0);
  const OpenedFolder opened(path.substr(0, path.rfind('/')));
  ::unlink(beside.c_str());
  const os::Fd file = create_file(beside);
  write_whole_at(file, beside, mapped, 0);
  set_status(file, beside, entry);
  check(::rename(beside.c_str(), path.c_str()), path);
}

// Reports whether the entry found is the one meant, judged by its status.
bool is_same(const Entry& meant, const Entry& found) {
  const bool rewritten = staging::may_name_source(meant);
  if (meant.kind == Kind::folder || meant.kind == Kind::symbolic_link) return meant.kind == found.kind;
  if (found.kind != Kind::file && found.kind != Kind::hard_link) return false;
  return meant.mode == found.mode &&
         (rewritten || found.kind != Kind::file || meant.kind != Kind::file || meant.size == found.size);
}

}  // namespace

StageWriter::StageWriter(std::string root, const Manifest& manifest)
    : root_(std::move(root)), manifest_(manifest) {
  for (const Entry& entry : manifest_.entries) {
    const std::string path = path_of(root_, entry);
    if (entry.kind == Kind::folder) check(::mkdir(path.c_str(), k_while_written), path);
  }
  open_next();
}

// Opens the next file that has contents; other entries are done already.
void StageWriter::open_next() {
  for (; !file_ && entry_ < manifest_.entries.size(); ++entry_) {
    const Entry& entry = manifest_.entries[entry_];
    if (entry.kind != Kind::file) continue;
    path_ = path_of(root_, entry);
    file_ = create_file(path_);
    at_ = 0;
    size_ = entry.size;
    // All of it at once: what is left out as a hole is read by others before the end is written.
    check(::ftruncate(file_.get(), static_cast<off_t>(size_)), path_);
    if (size_ > 0) return void(++entry_);
    set_status(file_, path_, entry);
    file_.close();
  }
}

void StageWriter::close_file() {
  set_status(file_, path_, manifest_.entries[entry_ - 1]);
  file_.close();
  open_next();
}

void StageWriter::write_block(std::string_view bytes) {
  if (bytes.size() < k_block || !is_zero(bytes)) write_whole_at(file_, path_, bytes, at_);
  at_ += bytes.size();
}

void StageWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!file_) throw Error("received more contents than files for " + printable(root_));
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>({bytes.size(), size_ - at_, k_block - at_ % k_block}));
    write_block(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (at_ == size_) close_file();
  }
}

void StageWriter::finish(const std::vector<staging::Mapping>& mappings) {
  if (file_) throw Error("contents are missing for " + printable(root_));
  for (const Entry& entry : manifest_.entries) {
    if (entry.kind == Kind::hard_link || entry.kind == Kind::symbolic_link)
      make_link(root_, manifest_, entry, mappings);
  }
  for (auto entry = manifest_.entries.rbegin(); entry != manifest_.entries.rend(); ++entry) {
    if (entry->kind != Kind::folder) continue;
    const std::string path = path_of(root_, *entry);
    check(::chmod(path.c_str(), entry->mode), path);
    check(::utimensat(AT_FDCWD, path.c_str(), times_of(*entry).data(), 0), path);
  }
}

void rewrite_copy(const std::string& root, const std::string& originals, const Manifest& manifest,
                  const std::vector<staging::Mapping>& mappings) {
  ContentReader reader(root, originals, manifest);
  const std::vector<std::uint64_t> offsets = staging::content_offsets(manifest);
  for (std::size_t i = 0; i < manifest.entries.size(); ++i) {
    const Entry& entry = manifest.entries[i];
    if (entry.size == 0 || !staging::may_name_source(entry)) continue;
    const std::string text = reader.read(offsets[i], static_cast<std::size_t>(entry.size));
    if (!staging::is_script(entry, text)) continue;
    const std::string mapped = staging::map_text(text, mappings);
    if (mapped != text) rewrite_file(root, fmt::format("{}/{}", originals, i), entry, text, mapped);
  }
}

bool is_like(const std::string& root, const Manifest& manifest) {
  Manifest found;
  try {
    found = read_stage_source(root);
  } catch (const Error&) {
    return false;
  }
  std::map<std::string, const Entry*> left;
  for (const Entry& entry : found.entries) left.emplace(entry.path, &entry);
  for (const Entry& entry : manifest.entries) {
    const auto here = left.find(entry.path);
    if (here == left.end() || !is_same(entry, *here->second)) return false;
    left.erase(here);
  }
  return std::ranges::all_of(
      left, [](const auto& each) { return each.first.find("__pycache__") != std::string::npos; });
}

namespace {

// To the end, so that its writer is never held up; tar's first line says why, and the later ones that it
// gives up.
std::string read_first_line(const os::Fd& reader) {
  std::string text;
  std::array<char, 4096> portion{};
  for (;;) {
    const ssize_t count = ::read(reader.get(), portion.data(), portion.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text.substr(0, text.find('\n'));
    if (text.size() < portion.size()) text.append(portion.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string unpack(const std::string& archive, const std::string& folder) {
  const std::array<const char*, 7> words{
      "tar", "-xf", archive.c_str(), "-C", folder.c_str(), "--no-same-owner", nullptr};
  os::Pipe errors = os::make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, errors.writer.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, "tar", &actions, &attributes, const_cast<char* const*>(words.data()), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  errors.writer.close();
  if (error != 0) return "cannot start tar: " + os::describe_errno(error);
  const std::string said = read_first_line(errors.reader);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return "cannot wait for tar: " + os::describe_errno(errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string how = WIFEXITED(status) ? fmt::format("tar exits with {}", WEXITSTATUS(status))
                                            : fmt::format("tar is ended by signal {}", WTERMSIG(status));
  return said.empty() ? how : how + ": " + printable(said, 200);
}

}  // namespace ddprun::copies
