#include "os/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"
#include "os/read_file.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("a file is replaced as a whole and nothing stays beside it") {
  const TempDir folder{std::optional<std::string>()};
  const std::string path = folder.path() + "/report.json";
  CHECK(replace_file(path, "one").empty());
  CHECK(replace_file(path, "two").empty());
  CHECK(read_file(path, 100) == "two");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a link stays, and the file behind it is replaced") {
  const TempDir folder{std::optional<std::string>()};
  std::filesystem::create_symlink("real.json", folder.path() + "/link.json");
  CHECK(replace_file(folder.path() + "/link.json", "new").empty());
  CHECK(std::filesystem::is_symlink(folder.path() + "/link.json"));
  CHECK(read_file(folder.path() + "/real.json", 100) == "new");
}

TEST_CASE(
    "the name of a descriptor is written to, also where it leads to a file, and what was written there "
    "stays") {
  const TempDir folder{std::optional<std::string>()};
  const std::string output = folder.path() + "/output";
  const Fd file(::open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::write(file.get(), "before\n", 7) == 7);
  const std::string name = folder.path() + "/stdout";  // as /dev/stdout is
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", file.get()), name);
  CHECK(replace_file(name, "report\n").empty());
  CHECK(add_line(fmt::format("/dev/fd/{}", file.get()), "line").empty());
  REQUIRE(::write(file.get(), "after\n", 6) == 6);
  CHECK(std::filesystem::is_symlink(name));
  CHECK(read_file(output, 100) == "before\nreport\nline\nafter\n");
}

TEST_CASE("a line is added to a file once") {
  const TempDir folder{std::optional<std::string>()};
  const std::string path = folder.path() + "/bad-nodes";
  for (const char* const node : {"n10", "n1", "n10", "n1", "n100"}) CHECK(add_line(path, node).empty());
  CHECK(read_file(path, 100) == "n10\nn1\nn100\n");
  CHECK(add_line("/no/such/folder/bad-nodes", "n1") == "no such file or directory");
}

TEST_CASE("why a file cannot be written, and a device is written to as it is") {
  CHECK(replace_file("/no/such/folder/report.json", "x") == "no such file or directory");
  CHECK(replace_file("/dev/null", "x").empty());
  CHECK(replace_file("/dev/full", "x") == "no space left on device");
}
