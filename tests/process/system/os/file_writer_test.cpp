#include "os/files/file_writer.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catch.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/files/temp_dir.hpp"
#include "os/read_file.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

constexpr Milliseconds k_patience{60000};

void send(const FileWriter& writer, std::string_view text) {
  const std::string frame = FileWriter::frame(text);
  REQUIRE(::send(writer.socket(), frame.data(), frame.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(frame.size()));
}

FileWriter::News wait_for_news(FileWriter& writer) {
  const TimePoint deadline = now() + k_patience;
  while (now() < deadline) {
    if (const auto news = writer.news()) return *news;
    REQUIRE_FALSE(writer.has_left());
    wait_until_ready(writer.socket(), deadline);
  }
  FAIL("no news");
  return {};
}

}  // namespace

TEST_CASE("texts are appended to a file, or replace it, and each is answered") {
  const TempDir folder(std::nullopt);
  const std::string path = folder.path() + "/file";
  {
    FileWriter writer(path, FileWriter::How::append);
    for (const char* text : {"one\n", "two\n"}) {
      send(writer, text);
      const FileWriter::News news = wait_for_news(writer);
      CHECK(news.done);
      CHECK(news.problem.empty());
    }
  }
  CHECK(read_file(path, 100) == "one\ntwo\n");
  FileWriter replacer(path, FileWriter::How::replace, [](const std::string& before, std::string_view text) {
    return before + "+ " + std::string(text);
  });
  send(replacer, "three\n");
  CHECK(wait_for_news(replacer).done);
  CHECK(read_file(path, 100) == "one\ntwo\n+ three\n");
}

TEST_CASE("a named pipe without a reader waits, and what was sent comes once there is one") {
  const TempDir folder(std::nullopt);
  const std::string path = folder.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  FileWriter writer(path, FileWriter::How::append);
  send(writer, "event\n");
  const FileWriter::News waits = wait_for_news(writer);
  CHECK_FALSE(waits.done);
  CHECK(waits.problem == "no process has this named pipe open to read");
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(wait_for_news(writer).done);
  CHECK(read_by(now() + k_patience, reader.get(), 6) == "event\n");
}

TEST_CASE("why a text is not in the file is said") {
  const TempDir folder(std::nullopt);
  FileWriter full("/dev/full", FileWriter::How::append);
  send(full, "x\n");
  CHECK(wait_for_news(full).problem == "no space left on device");
  FileWriter none("/no/such/file", FileWriter::How::replace);
  send(none, "x\n");
  CHECK(wait_for_news(none).problem == "no such file or directory");
}
