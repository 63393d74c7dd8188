#include "os/files/key_file.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/files/temp_dir.hpp"
#include "os/read_file.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

struct Refusal {
  std::string what;
  std::string hint;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

Refusal refusal(const std::string& path) {
  try {
    read_or_make_key_file(path);
  } catch (const Error& error) {
    return {error.what(), error.hint()};
  }
  return {"no error", ""};
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void write_key(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
}

}  // namespace

TEST_CASE("the key is in the home directory unless another file is named") {
  CHECK(default_key_path("", "/home/u") == "/home/u/.ddprun/key");
  CHECK(default_key_path("/k", "/home/u") == "/k");
  try {
    default_key_path("", "");
    FAIL("no error");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()) == "cannot place the key file: HOME is not set");
    CHECK(error.hint() == "name one with --key-file, or set DDPRUN_SECRET");
  }
}

TEST_CASE("a key is made once, privately, and read again") {
  const TempDir home(std::nullopt);
  const std::string path = default_key_path("", home.path());
  const SecretKey key = read_or_make_key_file(path);
  CHECK(read_or_make_key_file(path) == key);
  CHECK(read_key_file(path) == key);
  CHECK(key != SecretKey{});
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(home.path() + "/.ddprun") == 0700);
  CHECK(read_file(path, 100).size() == 65);
  const std::filesystem::directory_iterator entries(home.path() + "/.ddprun");
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // nothing is left beside it
}

TEST_CASE("many processes that make the key at once get the same one") {
  const TempDir home(std::nullopt);
  const std::string path = default_key_path("", home.path());
  int start[2];
  int keys[2];
  REQUIRE(::pipe(start) == 0);
  REQUIRE(::pipe(keys) == 0);
  static constexpr int k_processes = 16;
  std::vector<pid_t> children;
  for (int i = 0; i < k_processes; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      char byte = 0;
      ::close(start[1]);
      static_cast<void>(::read(start[0], &byte, 1));  // until the parent closes its end: all start together
      try {
        const SecretKey key = read_or_make_key_file(path);
        ::_exit(::write(keys[1], key.data(), key.size()) == static_cast<ssize_t>(key.size()) ? 0 : 1);
      } catch (const std::exception&) {
        ::_exit(2);
      }
    }
    children.push_back(child);
  }
  for (const int end : {start[0], start[1], keys[1]}) ::close(end);
  std::multiset<SecretKey> answers;
  SecretKey key{};
  while (::read(keys[0], key.data(), key.size()) == static_cast<ssize_t>(key.size())) answers.insert(key);
  ::close(keys[0]);
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(answers.size() == k_processes);
  CHECK(answers.count(read_key_file(path)) == k_processes);
}

TEST_CASE("a key file that is not safe or not a key is refused with what to do") {
  const TempDir home(std::nullopt);
  const std::string path = home.path() + "/key";
  const std::string start = "cannot use the key file " + path + ": ";
  const std::string remake = "remove it with rm " + path + " and let ddprun make a new one";
  const std::string digits(64, 'a');

  for (const std::string& text : {std::string(), digits, digits + "\n\n", digits + "0\n",
                                  std::string(64, 'g') + "\n", digits.substr(2) + " 1\n"}) {
    CAPTURE(text);
    write_key(path, text);
    CHECK(refusal(path) == Refusal{start + "it does not hold one line of 64 hexadecimal digits", remake});
  }
  write_key(path, digits + "\n");
  CHECK(read_key_file(path)[31] == 0xaa);
  REQUIRE(::chmod(path.c_str(), 0400) == 0);
  CHECK(read_key_file(path)[31] == 0xaa);

  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(refusal(path) == Refusal{start + "its mode is 0640, not 0600",
                                 "chmod 600 " + path + ", and remove it first if others may have read it"});
  if (::geteuid() == 0) {
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
    CHECK(refusal(path) == Refusal{start + "it belongs to user 12345, not to user 0",
                                   "name a file of your own with --key-file"});
  }
  CHECK(refusal(home.path()) ==
        Refusal{"cannot use the key file " + home.path() + ": it is not a regular file",
                "name another place with --key-file"});
  const std::string fifo = home.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal(fifo).what == "cannot use the key file " + fifo + ": it is not a regular file");
  CHECK(refusal("/nonexistent/folder/key") ==
        Refusal{"cannot create the key file /nonexistent/folder/key: no such file or directory",
                "name another place with --key-file"});
  CHECK(refusal("/dev/null/key").what == "cannot read the key file /dev/null/key: not a directory");
}
