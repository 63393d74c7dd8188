#include "os/files/temp_dir.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "error_text.hpp"
#include "os/process/child_call.hpp"
#include "os/process/reaper.hpp"

using namespace ddprun;
using namespace ddprun::os;

using Places = std::vector<std::string>;

TEST_CASE("a temporary folder is private and goes with its owner, not with a child or through a link") {
  std::string path;
  const TempDir outside(std::nullopt);
  std::ofstream(outside.path() + "/kept") << "x";
  {
    const TempDir folder(temp_dir_places(outside.path(), "x"));
    path = folder.path();
    CHECK(path == outside.path() + "/ddprun-x");
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
  const std::string name = make_random_id();
  for (const char* preferred : {"/nonexistent", "", "relative", "/proc"}) {
    CAPTURE(preferred);
    const std::vector<std::string> places = temp_dir_places(preferred, name);
    CHECK(places.back() == "/tmp/ddprun-" + name);
    const std::string path = TempDir(places).path();
    CHECK((path == places.back() || path == places[places.size() - 2]));
    CHECK_FALSE(path.starts_with(std::string(preferred) + "/ddprun-"));
  }
}

TEST_CASE("the job's own TMPDIR comes before the user's folder under /run/user, and that before /tmp") {
  const std::string session = "/run/user/" + std::to_string(::geteuid());
  const bool has_session = std::filesystem::is_directory(session);
  const auto expected = [&](std::vector<std::string> first) {
    if (has_session) first.push_back(session + "/ddprun-x");
    first.emplace_back("/tmp/ddprun-x");
    return first;
  };
  const TempDir job(std::nullopt);
  CHECK(temp_dir_places(job.path(), "x") == expected({job.path() + "/ddprun-x"}));
  CHECK(temp_dir_places("/tmp", "x") == expected({}));
  CHECK(temp_dir_places(std::nullopt, "x") == expected({}));
}

TEST_CASE("a folder that is there already, or a link, is nobody's to use") {
  const TempDir outside(std::nullopt);
  std::filesystem::create_directory(outside.path() + "/there");
  std::filesystem::create_directory_symlink("/tmp", outside.path() + "/link");
  CHECK(error_of([&] {
          TempDir(Places{outside.path() + "/there", outside.path() + "/link"});
        }) ==
        "cannot create the temporary folder " + outside.path() + "/there or " + outside.path() +
            "/link: file exists | set TMPDIR to a folder that can be written to, and that only this user can "
            "change | 125");
  CHECK(TempDir(Places{outside.path() + "/there", outside.path() + "/free"}).path() ==
        outside.path() + "/free");
}

TEST_CASE("a TMPDIR that other users can change, itself or a folder above it, is passed over") {
  const TempDir outside(std::nullopt);
  const std::string below = outside.path() + "/open/mine";
  std::filesystem::create_directories(below);
  struct Row {
    int mode;
    bool used;
  };
  for (const Row row : {Row{0755, true}, {0777, false}, {02775, false}, {01777, true}, {01775, true}}) {
    CAPTURE(row.mode);
    ::chmod((outside.path() + "/open").c_str(), static_cast<mode_t>(row.mode));
    if (::chown((outside.path() + "/open").c_str(), static_cast<uid_t>(-1), 12) != 0 && row.mode == 02775)
      continue;
    ::chmod((outside.path() + "/open").c_str(), static_cast<mode_t>(row.mode));
    for (const std::string& parent : {outside.path() + "/open", below}) {
      CHECK((temp_dir_places(parent, "x").front() == parent + "/ddprun-x") == row.used);
      const std::string problem = error_of([&] { TempDir(Places{parent + "/x"}); });
      CHECK((problem.find("/open can be changed by other users (mode ") == std::string::npos) == row.used);
      std::filesystem::remove(parent + "/x");
    }
  }
}
