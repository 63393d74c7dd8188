#include "os/path_walk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <string_view>

#include "base/text.hpp"
#include "os/read_file.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr int k_most_links = 40;  // the kernel's limit

using Names = std::deque<std::string>;

void put_in_front(Names& names, const std::string& path) {
  const auto added = split(path, '/');
  for (auto each = added.rbegin(); each != added.rend(); ++each) {
    if (!each->empty()) names.push_front(*each);
  }
}

Fd open_start(const std::string& path) {
  return Fd(::open(path.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

struct stat status_of(const Fd& opened) {
  struct stat status {};
  ::fstat(opened.get(), &status);
  return status;
}

bool is_proc(const Fd& folder) {
  struct stat proc {};
  return ::stat("/proc/self/fd", &proc) == 0 && status_of(folder).st_dev == proc.st_dev;
}

class Walk {
 public:
  Walk(const std::string& path, const std::function<std::string(const Fd& folder)>& look) : look_(look) {
    put_in_front(left_, path);
    if (path.empty() || path.ends_with('/')) left_.emplace_back(".");
    enter(open_start(path));
  }

  WalkedPath run() {
    while (result_.problem.empty() && !left_.empty()) {
      const std::string name = std::move(left_.front());
      left_.pop_front();
      if (left_.empty() && (name == "." || is_proc(result_.folder))) {
        result_.in_proc = name != ".";
        result_.name = name;
      } else {
        step(name);
      }
    }
    if (result_.name.empty()) result_.name = ".";
    return std::move(result_);
  }

 private:
  void enter(Fd folder) {
    if (!folder) {
      result_.problem = describe_errno(errno);
      return;
    }
    result_.folder = std::move(folder);
    if (look_) result_.problem = look_(result_.folder);
  }

  // O_DIRECTORY mounts what autofs(5) mounts on the way.
  void step(const std::string& name) {
    const int folder = result_.folder.get();
    if (!left_.empty() || name == "..") {
      Fd next(::openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (next || (errno != ENOTDIR && errno != ELOOP)) return enter(std::move(next));
    }
    const Fd entry(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (entry) status = status_of(entry);
    if (entry && S_ISLNK(status.st_mode)) return follow(entry, status);
    if (left_.empty()) {
      result_.name = name;  // a file, or none yet
    } else {
      result_.problem = describe_errno(entry ? ENOTDIR : errno);
    }
  }

  void follow(const Fd& link, const struct stat& status) {
    if (++links_ > k_most_links) {
      result_.problem = describe_errno(ELOOP);
      return;
    }
    if (const std::string why = why_foreign(status_of(result_.folder), status); !why.empty()) {
      result_.problem = "a symbolic link leads there; " + why;
      return;
    }
    std::array<char, PATH_MAX> text;
    const ssize_t length = ::readlinkat(link.get(), "", text.data(), text.size());
    if (length <= 0) {
      result_.problem = describe_errno(errno);
      return;
    }
    const std::string target(text.data(), static_cast<std::size_t>(length));
    put_in_front(left_, target);
    if (left_.empty()) left_.emplace_back(".");  // a link to /
    if (target.starts_with('/')) enter(open_start(target));
  }

  const std::function<std::string(const Fd& folder)>& look_;
  Names left_;
  WalkedPath result_;
  int links_ = 0;
};

// Root, as this process sees it: in a user namespace without root, what is root's shows as the overflow
// user's.
bool is_root(uid_t user) {
  if (user == 0) return true;
  const std::string map = try_read_file("/proc/self/uid_map").value_or("");
  const auto words = split_words(map);
  const bool root_is_mapped = words.empty() || words.front() == "0";
  return !root_is_mapped &&
         trim(try_read_file("/proc/sys/kernel/overflowuid").value_or("")) == std::to_string(user);
}

std::string path_of(const Fd& folder) {
  std::array<char, PATH_MAX> text;
  const ssize_t length =
      ::readlink(fmt::format("/proc/self/fd/{}", folder.get()).c_str(), text.data(), text.size());
  return length <= 0 ? "its folder" : std::string(text.data(), static_cast<std::size_t>(length));
}

std::string why_others_can_change(const Fd& folder) {
  const struct stat status = status_of(folder);
  if (status.st_uid != ::geteuid() && !is_root(status.st_uid))
    return fmt::format("{} belongs to user {}", printable(path_of(folder)), status.st_uid);
  const bool of_group = (status.st_mode & S_IWGRP) != 0 && status.st_gid != 0;
  const bool of_all = (status.st_mode & S_IWOTH) != 0;
  if ((!of_group && !of_all) || (status.st_mode & S_ISVTX) != 0) return {};
  return fmt::format("{} can be changed by other users (mode {:04o} without the sticky bit)",
                     printable(path_of(folder)), status.st_mode & 07777U);
}

}  // namespace

std::string why_foreign(const struct stat& folder, const struct stat& entry) {
  const bool open_to_all = (folder.st_mode & S_IWOTH) != 0;
  if (!open_to_all || entry.st_uid == ::geteuid() || entry.st_uid == 0 || entry.st_uid == folder.st_uid)
    return {};
  return fmt::format("it belongs to user {}, and all users can write to its folder", entry.st_uid);
}

WalkedPath walk_path(const std::string& path, const std::function<std::string(const Fd& folder)>& look) {
  return Walk(path, look).run();
}

std::string why_others_can_replace(const std::string& path) {
  return walk_path(path + "/", why_others_can_change).problem;
}

namespace {

constexpr std::size_t k_head = 128;

facts::ProgramFacts look_at(const std::string& word, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const bool directory = S_ISDIR(status.st_mode);
  const bool may_execute =
      S_ISREG(status.st_mode) && ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  const bool needs_head = !directory && !may_execute;
  return {facts::judge_program(word, directory, may_execute, needs_head ? read_head(path, k_head) : ""),
          path};
}

// Returns the first executable file on the path; else the first that only lacks permission (execvp's EACCES).
facts::ProgramFacts search(const std::string& name, const std::string& path_variable) {
  facts::ProgramFacts refused;
  for (const std::string& folder : split(path_variable, ':')) {
    facts::ProgramFacts found = look_at(name, folder.empty() ? name : folder + "/" + name);
    if (found.kind == facts::ProgramKind::executable || found.kind == facts::ProgramKind::python_file)
      return found;
    if (found.kind == facts::ProgramKind::not_executable && refused.kind == facts::ProgramKind::missing)
      refused = found;
  }
  return refused;
}

}  // namespace

facts::ProgramFacts capture_program(const std::string& word,
                                    const std::optional<std::string>& path_variable) {
  if (word.empty()) return {};
  const facts::ProgramFacts here = look_at(word, word);
  if (word.find('/') != std::string::npos) return here;
  if (here.kind == facts::ProgramKind::python_file && word.ends_with(".py")) return here;
  const facts::ProgramFacts found = search(word, path_variable.value_or("/bin:/usr/bin"));
  if (found.kind != facts::ProgramKind::missing) return found;
  // The file here is most likely what the user meant: it can be explained, but not started by this name.
  return here.kind == facts::ProgramKind::executable
             ? facts::ProgramFacts{facts::ProgramKind::missing, here.path}
             : here;
}

FirstLine capture_first_line(const std::string& path) {
  constexpr std::size_t k_longest = 256;  // the kernel reads no more
  const std::string head = read_head(path, k_longest);
  if (!head.starts_with("#!")) return {};
  const std::string_view blanks = " \t";
  std::string_view line = std::string_view(head).substr(2, head.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  line = line.substr(0, line.find_last_not_of(blanks) + 1);
  FirstLine found{std::string(line), std::string(line.substr(0, line.find_first_of(blanks)))};
  found.interpreter_missing =
      found.interpreter.starts_with('/') && ::access(found.interpreter.c_str(), F_OK) != 0;
  return found;
}

}  // namespace ddprun::os
