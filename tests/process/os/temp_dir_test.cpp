#include "ddprun/os/temp_dir.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "ddprun/os/child_call.hpp"

using namespace ddprun;

TEST_CASE("a temporary folder is private and goes with its owner, not with a child or through a link") {
  std::string path;
  const TempDir outside(std::nullopt);
  std::ofstream(outside.path() + "/kept") << "x";
  {
    const TempDir folder(outside.path());
    path = folder.path();
    CHECK(path.starts_with(outside.path() + "/ddprun-"));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    std::filesystem::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/file") << "x";
    std::filesystem::create_directory_symlink(outside.path(), path + "/link");
    REQUIRE(call_in_child(
                [&] {
                  folder.~TempDir();
                  return std::string();
                },
                Milliseconds{20000})
                .bytes);
    CHECK(std::filesystem::exists(path + "/a/b/file"));
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(std::filesystem::exists(outside.path() + "/kept"));
}

TEST_CASE("a TMPDIR that cannot be used is passed over") {
  for (const char* preferred : {"/nonexistent", "", "relative", "/proc"}) {
    CAPTURE(preferred);
    CHECK(TempDir(preferred).path().starts_with("/tmp/ddprun-"));
  }
}
