#include "copies/stage_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <array>
#include <cerrno>

#include "base/text.hpp"
#include "os/atomic_file.hpp"
#include "os/path_walk.hpp"
#include "os/private_files.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::copies {

namespace {

constexpr const char* k_complete_mark = ".complete";
constexpr const char* k_keep_mark = ".keep";
constexpr std::size_t k_complete_limit = 4096;

// File systems that other hosts share, by statfs(2): a copy there would be as slow as its source.
struct SharedKind {
  std::uint64_t number;
  const char* name;
};
constexpr std::array<SharedKind, 9> k_shared{{{0x6969, "nfs"},
                                              {0x0bd00bd0, "lustre"},
                                              {0x47504653, "gpfs"},
                                              {0x19830326, "beegfs"},
                                              {0x00c36400, "ceph"},
                                              {0xaad7aaea, "panfs"},
                                              {0xff534d42, "cifs"},
                                              {0xfe534d42, "smb"},
                                              {0x5346414f, "afs"}}};

std::string shared_kind(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return {};
  for (const SharedKind& kind : k_shared) {
    if (static_cast<std::uint64_t>(status.f_type) == kind.number) return kind.name;
  }
  return {};
}

bool lock(const os::Fd& folder, int how) { return ::flock(folder.get(), how | LOCK_NB) == 0; }

std::string above(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

bool StageFolder::is_current() const {
  struct stat opened {
  }, named{};
  return ::fstat(folder_.get(), &opened) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

StageFolder::Taken StageFolder::take() {
  int error = os::make_private_folder(path_);
  if (error == ENOENT && os::make_private_folder(above(path_)) == 0) error = os::make_private_folder(path_);
  if (error != 0 && error != EEXIST) throw os::system_failure("cannot create " + printable(path_), error);
  folder_ = os::Fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_ && errno == ENOENT) return Taken::busy;  // removed this moment
  if (!folder_) throw os::system_failure("cannot open " + printable(path_), errno);
  const bool alone = lock(folder_, LOCK_EX);
  if (!alone && !lock(folder_, LOCK_SH)) return folder_.close(), Taken::busy;
  const bool complete = exists(copy(k_complete_mark));
  if (!is_current() || (!alone && !complete)) return folder_.close(), Taken::busy;
  return alone ? Taken::alone : Taken::used;
}

bool StageFolder::share() { return lock(folder_, LOCK_SH) && is_current() && exists(copy(k_complete_mark)); }

void StageFolder::empty() const { os::remove_below(path_, false); }

void StageFolder::mark_complete(std::string_view text) const { os::write_file(copy(k_complete_mark), text); }

std::optional<std::string> StageFolder::completed() const {
  return os::try_read_file(copy(k_complete_mark), k_complete_limit);
}

void StageFolder::leave(bool keep) {
  if (!folder_) return;
  const std::string mark = copy(k_keep_mark);
  const bool complete = exists(copy(k_complete_mark));
  if (keep && complete)
    os::Fd(::open(mark.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)).close();
  if ((!exists(mark) || !complete) && lock(folder_, LOCK_EX) && is_current()) os::remove_below(path_, true);
  folder_.close();
  ::rmdir(above(path_).c_str());  // the last copy of all has gone
}

staging::PlaceFacts look_at_place(const std::string& place, const std::string& own_name) {
  staging::PlaceFacts facts{place, {}, 0, true};
  struct statvfs status {};
  if (::statvfs(place.c_str(), &status) != 0) {
    facts.problem = "cannot be used: " + os::describe_errno(errno);
    return facts;
  }
  facts.free = std::uint64_t{status.f_bavail} * status.f_frsize;
  facts.executes = (status.f_flag & ST_NOEXEC) == 0;
  if (const std::string kind = shared_kind(place); !kind.empty()) {
    facts.problem = fmt::format("is on {}, which other hosts share", kind);
    return facts;
  }
  if (const std::string why = os::why_others_can_replace(place); !why.empty()) {
    facts.problem = "is not safe: " + why;
    return facts;
  }
  const std::string own = place + "/" + own_name;
  const int error = os::make_private_folder(own);
  if (error != 0 && error != EEXIST) facts.problem = "cannot be written to: " + os::describe_errno(error);
  if (error == EEXIST && !os::is_private_folder(own))
    facts.problem = fmt::format("has a {} that others can change", own_name);
  return facts;
}

void sweep_stage_folders(const std::string& user_folder, const std::string& copy, bool all_kept) {
  const std::string same_source = copy.substr(0, copy.rfind('-') + 1);
  for (const std::string& name : os::list_folder(user_folder)) {
    const std::string path = user_folder + "/" + name;
    const os::Fd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened || !lock(opened, LOCK_EX)) continue;
    const bool kept = exists(path + "/" + k_keep_mark) && exists(path + "/" + k_complete_mark);
    const bool of_use = name == copy || (!all_kept && !name.starts_with(same_source));
    if (!kept || !of_use) os::remove_below(path, true);
  }
}

struct StageDigest::State {
  crypto_generichash_state hash;
};

StageDigest::StageDigest() : state_(std::make_unique<State>()) {
  crypto_generichash_init(&state_->hash, nullptr, 0, crypto_generichash_BYTES);
}

StageDigest::~StageDigest() = default;

void StageDigest::add(std::string_view bytes) {
  crypto_generichash_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

std::string StageDigest::text() {
  std::array<unsigned char, crypto_generichash_BYTES> digest{};
  crypto_generichash_final(&state_->hash, digest.data(), digest.size());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace ddprun::copies
