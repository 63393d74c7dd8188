#include "os/files/rendezvous_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "error_text.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

std::string problem_with(const std::string& path) {
  const RendezvousFileLook look = look_at_rendezvous_file(path);
  CHECK_FALSE(look.text);
  return look.problem;
}

void write_file(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("a rendezvous file is there for as long as its maker, in a folder of its own") {
  const TempDir home(std::nullopt);
  const std::string path = home.path() + "/.ddprun/meet.0.1";
  {
    const RendezvousFile file(path, "where\n");
    CHECK(look_at_rendezvous_file(path).text == "where\n");
    CHECK(mode_of(path) == 0600);
    CHECK(mode_of(home.path() + "/.ddprun") == 0700);
  }
  CHECK(std::filesystem::is_empty(home.path() + "/.ddprun"));
}

TEST_CASE("what a killed launch left is replaced, and another launch's file is not removed") {
  const TempDir folder(std::nullopt);
  const std::string path = folder.path() + "/meet";
  write_file(path, "stale", 0644);
  {
    const RendezvousFile first(path, "first");
    CHECK(look_at_rendezvous_file(path).text == "first");
    const RendezvousFile second(path, "second");
    CHECK(look_at_rendezvous_file(path).text == "second");
  }
  CHECK_FALSE(std::filesystem::exists(path));
  {
    const RendezvousFile first(path, "first");
    std::filesystem::remove(path);
    write_file(path + ".other", "another's");
    std::filesystem::rename(path + ".other", path);
  }
  CHECK(look_at_rendezvous_file(path).text == "another's");
}

TEST_CASE("a file that is not there is no problem, nor is its folder") {
  const TempDir folder(std::nullopt);
  CHECK(problem_with(folder.path() + "/meet").empty());
  CHECK(problem_with(folder.path() + "/nothing/meet").empty());
}

TEST_CASE("what may be somebody else's word is not read") {
  const TempDir folder(std::nullopt);
  const std::string path = folder.path() + "/meet";
  write_file(path, "x", 0644);
  CHECK(problem_with(path) == "its mode is 0644, not 0600");
  ::chmod(path.c_str(), 0400);
  CHECK(look_at_rendezvous_file(path).text == "x");
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
    CHECK(problem_with(path) == "it belongs to user 65534, not to user 0");
  }
  std::filesystem::remove(path);
  write_file(folder.path() + "/real", "x");
  std::filesystem::create_symlink("real", path);
  CHECK(problem_with(path) == "it is a symbolic link");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(problem_with(path) == "it is not a regular file");
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(problem_with(path) == "it is not a regular file");
  std::filesystem::remove(path);
  write_file(path, std::string(k_max_rendezvous_file, 'x'));
  CHECK(look_at_rendezvous_file(path).text);
  write_file(path, std::string(k_max_rendezvous_file + 1, 'x'));
  CHECK(problem_with(path) == "it is longer than 8192 bytes");
  write_file(folder.path() + "/plain", "x");
  CHECK(problem_with(folder.path() + "/plain/meet") == "its folder: not a directory");
}

TEST_CASE("a folder that takes no file is named") {
  const auto made = [] { const RendezvousFile file("/proc/no/meet", "x"); };
  CHECK(error_of(made) ==
        "cannot create the rendezvous file /proc/no/meet: no such file or directory | name a folder that all "
        "hosts share with --rdzv-dir | 125");
}
