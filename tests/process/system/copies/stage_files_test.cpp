#include "copies/stage_folder.hpp"
#include "copies/stage_reader.hpp"
#include "copies/stage_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "catch.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/child_call.hpp"
#include "os/read_file.hpp"

using namespace ddprun;
using namespace ddprun::os;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& text, unsigned mode = 0644) {
  std::ofstream(path, std::ios::binary) << text;
  fs::permissions(path, static_cast<fs::perms>(mode));
}

std::string read(const std::string& path) { return read_file(path, 64 << 20); }

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

const auto k_never = [] { return false; };

struct Source {
  TempDir folder{std::optional<std::string>()};
  std::string path = folder.path() + "/venv", copy = folder.path() + "/copy",
              originals = folder.path() + "/originals";
  Source() {
    fs::create_directories(path + "/bin");
    fs::create_directories(path + "/lib/sealed");
    fs::create_directory(originals);
    write(path + "/bin/pip", "#!" + path + "/bin/python\nprint()\n", 0755);
    write(path + "/bin/ninja",
          std::string("\x7f"
                      "ELF\0",
                      5) +
              path,
          0755);
    write(path + "/pyvenv.cfg", "home = /usr/bin\ncommand = " + path + "\n");
    write(path + "/lib/module.py", "# " + path + "\n", 0600);
    write(path + "/lib/empty", "");
    write(path + "/lib/sealed/a", "x", 0444);
    fs::create_hard_link(path + "/lib/module.py", path + "/lib/zz.py");
    fs::create_symlink("/usr/bin/python3", path + "/bin/python");
    fs::create_symlink(path + "/lib", path + "/lib64");
    fs::create_symlink("../../beside", path + "/bin/beside");
    fs::permissions(path + "/lib/sealed", static_cast<fs::perms>(0555));
    ::mkfifo((path + "/pipe").c_str(), 0600);
  }
  ~Source() {
    for (const std::string& each : {path, copy}) {
      if (fs::exists(each + "/lib/sealed"))
        fs::permissions(each + "/lib/sealed", static_cast<fs::perms>(0755));
    }
  }
  std::vector<staging::Mapping> mappings() const { return {{{path}, copy}}; }
};

staging::Manifest make_copy(const Source& source, std::size_t part) {
  staging::Manifest manifest = copies::read_stage_source(source.path);
  copies::StageWriter writer(source.copy, manifest);
  std::string rest;
  copies::stream_contents(
      source.path, manifest, [&](std::string_view bytes) { rest += bytes; }, k_never);
  for (std::size_t at = 0; at < rest.size(); at += part)
    writer.write(std::string_view(rest).substr(at, part));
  writer.finish(source.mappings());
  return manifest;
}

}  // namespace

TEST_CASE("a copy has contents, links, permissions and times of its source") {
  const Source source;
  const staging::Manifest manifest = make_copy(source, GENERATE(1UL, 7UL, 1000000UL));
  CHECK(staging::count_files(manifest) == 6);
  CHECK(read(source.copy + "/lib/module.py") == read(source.path + "/lib/module.py"));
  CHECK(status_of(source.copy + "/lib/module.py").st_ino == status_of(source.copy + "/lib/zz.py").st_ino);
  CHECK(fs::read_symlink(source.copy + "/bin/python") == "/usr/bin/python3");
  CHECK(fs::read_symlink(source.copy + "/lib64") == source.copy + "/lib");
  CHECK(fs::read_symlink(source.copy + "/bin/beside") == source.folder.path() + "/beside");
  CHECK_FALSE(fs::exists(source.copy + "/pipe"));
  for (const char* name : {"/lib/module.py", "/lib/sealed", "/lib/sealed/a", "/lib/empty", "/bin", ""}) {
    const struct stat before = status_of(source.path + name), after = status_of(source.copy + name);
    CHECK((before.st_mode & 07777) == (after.st_mode & 07777));
    CHECK(before.st_mtim.tv_sec == after.st_mtim.tv_sec);
    CHECK(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
  }
  CHECK(copies::is_like(source.copy, manifest));
}

TEST_CASE("scripts and settings of a copy name the copy, and what others get of it is the original") {
  const Source source;
  const staging::Manifest manifest = make_copy(source, 1000);
  for (int times = 0; times < 2; ++times)
    copies::rewrite_copy(source.copy, source.originals, manifest, source.mappings());
  CHECK(read(source.copy + "/bin/pip") == "#!" + source.copy + "/bin/python\nprint()\n");
  CHECK(read(source.copy + "/pyvenv.cfg") == "home = /usr/bin\ncommand = " + source.copy + "\n");
  CHECK(read(source.copy + "/bin/ninja") == read(source.path + "/bin/ninja"));
  CHECK(read(source.copy + "/lib/module.py") == read(source.path + "/lib/module.py"));
  CHECK((status_of(source.copy + "/bin/pip").st_mode & 0777) == 0755);
  CHECK(status_of(source.copy + "/bin/pip").st_mtim.tv_nsec ==
        status_of(source.path + "/bin/pip").st_mtim.tv_nsec);
  CHECK(copies::is_like(source.copy, manifest));
  copies::ContentReader reader(source.copy, source.originals, manifest);
  std::string contents, expected;
  for (std::uint64_t at = 0; at < staging::content_size(manifest); at = contents.size())
    contents += reader.read(at, 9);
  copies::stream_contents(
      source.path, manifest, [&](std::string_view bytes) { expected += bytes; }, k_never);
  CHECK(contents == expected);
}

TEST_CASE("a copy that somebody changed is not like its source any more") {
  const Source source;
  const staging::Manifest manifest = make_copy(source, 1000);
  fs::create_directory(source.copy + "/lib/__pycache__");
  write(source.copy + "/lib/__pycache__/module.pyc", "x");
  CHECK(copies::is_like(source.copy, manifest));
  SECTION("a new file") { write(source.copy + "/lib/new.py", "x"); }
  SECTION("a missing file") { fs::remove(source.copy + "/lib/empty"); }
  SECTION("a longer file") { write(source.copy + "/lib/empty", "x"); }
  SECTION("another permission") { fs::permissions(source.copy + "/bin/ninja", static_cast<fs::perms>(0644)); }
  SECTION("a link instead of a file") {
    fs::remove(source.copy + "/lib/empty");
    fs::create_symlink("module.py", source.copy + "/lib/empty");
  }
  CHECK_FALSE(copies::is_like(source.copy, manifest));
}

TEST_CASE("a file that changes while it is copied is an error that names it") {
  const Source source;
  const staging::Manifest manifest = copies::read_stage_source(source.path);
  SECTION("shorter") { write(source.path + "/lib/module.py", ""); }
  SECTION("longer") { std::ofstream(source.path + "/lib/module.py", std::ios::app) << "more"; }
  try {
    copies::stream_contents(
        source.path, manifest, [](std::string_view) {}, k_never);
    FAIL("it was copied");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).ends_with("venv/lib/module.py has changed while it was copied"));
  }
}

TEST_CASE("holes stay holes") {
  const TempDir folder{std::optional<std::string>()};
  const std::string path = folder.path() + "/disk.img", copy = folder.path() + "/copy.img";
  write(path, "begin");
  fs::resize_file(path, 32 << 20);
  std::ofstream(path, std::ios::in | std::ios::out | std::ios::ate) << "end";
  const staging::Manifest manifest = copies::read_stage_source(path);
  copies::StageWriter writer(copy, manifest);
  copies::stream_contents(
      path, manifest, [&](std::string_view bytes) { writer.write(bytes); }, k_never);
  writer.finish({});
  CHECK(read(copy) == read(path));
  CHECK(status_of(copy).st_blocks * 512 < 1 << 20);
}

TEST_CASE("a source that is not there, or no file and no folder, is an error that names it") {
  for (const char* path : {"/nonexistent/venv", "/dev/null"}) {
    try {
      copies::read_stage_source(path);
      FAIL("it was read");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(path) != std::string::npos);
    }
  }
}

TEST_CASE("one fills a folder, then all use it, and the last removes it") {
  const TempDir place{std::optional<std::string>()};
  const std::string path = place.path() + "/venv-1";
  copies::StageFolder first(path), second(path);
  CHECK(first.take() == copies::StageFolder::Taken::alone);
  CHECK(second.take() == copies::StageFolder::Taken::busy);
  write(first.copy("x"), "x");
  first.mark_complete("digest");
  REQUIRE(first.share());
  CHECK(second.take() == copies::StageFolder::Taken::used);
  CHECK(second.completed() == "digest");
  first.leave(false);
  CHECK(fs::exists(path));
  second.leave(false);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("what a killed process was filling is free, and what it used is removed by the next sweep") {
  const TempDir place{std::optional<std::string>()};
  const std::string unfinished = place.path() + "/a-1", unused = place.path() + "/b-1",
                    kept = place.path() + "/c-1", used = place.path() + "/d-1";
  REQUIRE(call_in_child(
              [&] {
                for (const std::string& path : {unfinished, unused, kept}) {
                  auto* const folder = new copies::StageFolder(path);
                  folder->take();
                  if (path != unfinished) folder->mark_complete("x");
                  if (path == kept) folder->leave(true);
                }
                return std::string();
              },
              Milliseconds{20000})
              .bytes);
  copies::StageFolder here(used);
  CHECK(here.take() == copies::StageFolder::Taken::alone);
  here.mark_complete("x");
  REQUIRE(here.share());
  copies::sweep_stage_folders(place.path(), "e-1", false);
  CHECK_FALSE(fs::exists(unfinished));
  CHECK_FALSE(fs::exists(unused));
  CHECK(fs::exists(kept));
  CHECK(fs::exists(used));
  copies::sweep_stage_folders(place.path(), "c-1", true);
  CHECK(fs::exists(kept));
  copies::sweep_stage_folders(place.path(), "c-2", false);  // the source has changed
  CHECK_FALSE(fs::exists(kept));
  here.leave(true);
  CHECK(fs::exists(used));
  copies::sweep_stage_folders(place.path(), "e-1", true);  // room is needed
  CHECK_FALSE(fs::exists(used));
}

TEST_CASE("a place says what is to be known of it") {
  const TempDir place{std::optional<std::string>()};
  const staging::PlaceFacts good = copies::look_at_place(place.path());
  CHECK(good.problem.empty());
  CHECK(good.free > 0);
  const std::string own = place.path() + "/" + staging::user_folder(::geteuid());
  CHECK((status_of(own).st_mode & 0777) == 0700);
  fs::permissions(own, static_cast<fs::perms>(0777));
  CHECK(copies::look_at_place(place.path()).problem ==
        "has a " + staging::user_folder(::geteuid()) + " that others can change");
  fs::permissions(own, static_cast<fs::perms>(0700));
  fs::permissions(place.path(), static_cast<fs::perms>(0777));
  CHECK(copies::look_at_place(place.path()).problem ==
        "is not safe: " + place.path() + " can be changed by other users (mode 0777 without the sticky bit)");
  fs::permissions(place.path(), static_cast<fs::perms>(01777));
  CHECK(copies::look_at_place(place.path()).problem.empty());
  CHECK(copies::look_at_place("/nonexistent").problem == "cannot be used: no such file or directory");
}

TEST_CASE("what is written so far can be read, holes too") {
  const TempDir folder{std::optional<std::string>()};
  const std::string copy = folder.path() + "/copy.img";
  const staging::Manifest manifest{"/a", "/a", {{"", staging::Kind::file, 0644, 300000, 0, 0, {}}}};
  copies::StageWriter writer(copy, manifest);
  writer.write(std::string(200000, '\0'));
  copies::ContentReader reader(copy, "", manifest);
  CHECK(reader.read(0, 200000) == std::string(200000, '\0'));
}
