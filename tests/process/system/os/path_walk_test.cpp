#include "os/path_walk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace fs = std::filesystem;

namespace {

struct stat status_with(uid_t owner, mode_t mode) {
  struct stat status {};
  status.st_uid = owner;
  status.st_mode = mode;
  return status;
}

}  // namespace

TEST_CASE("in a folder where all users write, only what is ours, root's or the folder owner's is used") {
  const uid_t other = ::geteuid() + 4711;
  const struct stat shared = status_with(0, S_IFDIR | 01777);
  CHECK(why_foreign(shared, status_with(::geteuid(), S_IFLNK | 0777)).empty());
  CHECK(why_foreign(shared, status_with(0, S_IFREG | 0666)).empty());
  CHECK(why_foreign(shared, status_with(other, S_IFLNK | 0777)) ==
        "it belongs to user " + std::to_string(other) + ", and all users can write to its folder");
  CHECK(why_foreign(status_with(other, S_IFDIR | 01777), status_with(other, S_IFREG | 0666)).empty());
  CHECK(why_foreign(status_with(0, S_IFDIR | 02775), status_with(other, S_IFREG | 0666)).empty());
}

TEST_CASE("a walk follows links of folders and of the last name, and says which folders it saw") {
  const TempDir folder(std::nullopt);
  fs::create_directories(folder.path() + "/real/below");
  fs::create_directory_symlink("real", folder.path() + "/link");
  fs::create_symlink("../below/file", folder.path() + "/real/below/last");
  fs::create_symlink("loop", folder.path() + "/loop");
  int seen = 0;
  const WalkedPath walked = walk_path(folder.path() + "/link/below/last", [&](const Fd& each) {
    seen += each ? 1 : 0;
    return std::string();
  });
  REQUIRE(walked.problem.empty());
  CHECK(walked.name == "file");
  struct stat found {
  }, expected{};
  REQUIRE(::fstat(walked.folder.get(), &found) == 0);
  REQUIRE(::stat((folder.path() + "/real/below").c_str(), &expected) == 0);
  CHECK(found.st_ino == expected.st_ino);
  CHECK(seen > 4);
  CHECK(walk_path(folder.path() + "/loop").problem == "too many levels of symbolic links");
  CHECK(walk_path(folder.path() + "/none/x").problem == "no such file or directory");
  CHECK(walk_path(folder.path() + "/real/below/").name == ".");
  CHECK(walk_path("/dev/stdout").in_proc);
}
