#include "os/read_file.hpp"

#include <sys/stat.h>

#include <fstream>

#include "base/error.hpp"
#include "catch.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

std::string refusal(const std::string& path, std::size_t limit) {
  try {
    read_file(path, limit);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a file is read whole or refused with the reason") {
  const TempDir folder(std::nullopt);
  const std::string file = folder.path() + "/file";
  const std::string fifo = folder.path() + "/fifo";
  std::ofstream(file) << std::string(10000, 'x');
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(read_file(file, 10000) == std::string(10000, 'x'));
  CHECK(try_read_file(file, 10000) == std::string(10000, 'x'));
  CHECK(read_head(file, 3) == "xxx");
  CHECK(refusal(file, 9999) == "cannot read " + file + ": it is longer than 9999 bytes");
  CHECK(refusal(file + "2", 9) == "cannot read " + file + "2: no such file or directory");
  CHECK(refusal(fifo, 9) == "cannot read " + fifo + ": it is not a regular file");
  CHECK(refusal(folder.path(), 9) == "cannot read " + folder.path() + ": is a directory");
  for (const std::string& path : {fifo, folder.path(), std::string("/dev/zero"), file + "2"}) {
    CAPTURE(path);
    CHECK_FALSE(try_read_file(path));
    CHECK(read_head(path, 9).empty());
  }
  CHECK_FALSE(try_read_file(file, 9999));
}
