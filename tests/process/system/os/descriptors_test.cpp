#include "os/descriptors.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("a closed standard descriptor becomes /dev/null") {
  const Fd saved = duplicate(0);
  ::close(0);
  ensure_standard_descriptors();
  char byte = 0;
  CHECK(::read(0, &byte, 1) == 0);
  REQUIRE(::dup2(saved.get(), 0) == 0);
}

TEST_CASE("two descriptors of one file are known as such") {
  const Pipe pipe = make_pipe();
  const Pipe other = make_pipe();
  CHECK(same_file(pipe.writer.get(), duplicate(pipe.writer.get()).get()));
  CHECK_FALSE(same_file(pipe.writer.get(), other.writer.get()));
  CHECK_FALSE(same_file(pipe.writer.get(), -1));
}

TEST_CASE("what nobody has read of a pipe can be taken back, also when its reader is gone") {
  Pipe pipe = make_pipe();
  CHECK(read_unread(pipe.writer.get()).empty());
  const std::string text(10000, 'x');
  REQUIRE(::write(pipe.writer.get(), text.data(), text.size()) == 10000);
  char part[100];
  REQUIRE(::read(pipe.reader.get(), part, sizeof part) == 100);
  pipe.reader.close();
  CHECK(read_unread(pipe.writer.get()) == text.substr(100));
  CHECK(read_unread(pipe.writer.get()).empty());
}

TEST_CASE("the limit of open files is raised once and says what it was") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 60;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(raise_open_files_limit() == 60U);
  CHECK_FALSE(raise_open_files_limit());
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("readiness is seen without a change to the descriptor; a file has none") {
  Pipe pipe = make_pipe();
  const Fd watch = watch_readiness(pipe.reader.get(), Readiness::readable);
  REQUIRE(watch);
  pollfd ready{watch.get(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 0) == 0);
  REQUIRE(::write(pipe.writer.get(), "x", 1) == 1);
  CHECK(::poll(&ready, 1, 0) == 1);
  CHECK((::fcntl(pipe.reader.get(), F_GETFL) & O_NONBLOCK) == 0);

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  CHECK_FALSE(watch_readiness(::fileno(file.get()), Readiness::writable));
}
