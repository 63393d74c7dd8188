#include "os/atomic_file.hpp"

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

TEST_CASE("why a file cannot be written, and a device is written to as it is") {
  CHECK(replace_file("/no/such/folder/report.json", "x") == "no such file or directory");
  CHECK(replace_file("/dev/null", "x").empty());
  CHECK(replace_file("/dev/full", "x") == "no space left on device");
}
