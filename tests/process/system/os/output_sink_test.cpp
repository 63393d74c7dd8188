#include "os/terminal/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/process/signals.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

const std::string k_much(std::size_t{4} << 20, 'x');  // more than any pipe or socket holds

bool is_ready(const OutputSink& sink) {
  pollfd ready{sink.watch().get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

// Fills the sink, empties the other side, and fills it again; the shared flags stay as they are.
void check_slow_reader(int written, int read) {
  OutputSink sink(written);
  const std::size_t taken = sink.write(k_much);
  CHECK(taken > 0);
  CHECK(taken < k_much.size());
  CHECK_FALSE(is_ready(sink));
  std::string received(taken, ' ');
  for (std::size_t at = 0; at < taken;) {
    const ssize_t length = ::read(read, received.data() + at, taken - at);
    REQUIRE(length > 0);
    at += static_cast<std::size_t>(length);
  }
  CHECK(received == k_much.substr(0, taken));
  CHECK(is_ready(sink));
  CHECK(sink.write("more") == 4);
  CHECK((::fcntl(written, F_GETFL) & O_NONBLOCK) == 0);
  CHECK(sink.error() == 0);
}

}  // namespace

TEST_CASE("a full pipe takes what it can and says when it takes more") {
  Pipe pipe = make_pipe();
  check_slow_reader(pipe.writer.get(), pipe.reader.get());
}

TEST_CASE("a full socket takes what it can and says when it takes more") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd written(ends[0]);
  const Fd read(ends[1]);
  check_slow_reader(written.get(), read.get());
}

TEST_CASE("a pipe that belongs to another user arrives whole, too") {
  Pipe pipe = make_pipe();
  SpawnRequest request = testing::launcher_request({"pour", std::to_string(k_much.size())});
  request.standard_output = pipe.writer.get();
  Child child = testing::start(request);
  CHECK((::fcntl(pipe.writer.get(), F_GETFL) & O_NONBLOCK) == 0);
  pipe.writer.close();
  CHECK(testing::read_until(pipe.reader.get(), "") == k_much);
  CHECK(testing::wait_for_end(child).success());
}

TEST_CASE("a file takes everything, after what others wrote to the same open file") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const int descriptor = ::fileno(file.get());
  OutputSink sink(descriptor);
  CHECK_FALSE(sink.watch());
  CHECK(sink.write("one ") == 4);
  REQUIRE(::write(descriptor, "two ", 4) == 4);
  CHECK(sink.write("three") == 5);
  char text[32] = {};
  CHECK(::pread(descriptor, text, sizeof text, 0) == 13);
  CHECK(std::string(text) == "one two three");
}

TEST_CASE("what nobody reads is dropped and the reason kept") {
  const SignalSource signals(handled_signals());  // SIGPIPE
  Pipe pipe = make_pipe();
  OutputSink sink(pipe.writer.get());
  pipe.reader.close();
  CHECK(sink.write("lost") == 4);
  CHECK(sink.error() == EPIPE);

  OutputSink full(Fd(::open("/dev/full", O_WRONLY | O_CLOEXEC)).release());
  CHECK(full.write("lost") == 4);
  CHECK(full.error() == ENOSPC);
}

TEST_CASE("what a reader who has gone does not get is not lost, what a full disk does not take is") {
  const SignalSource signals(handled_signals());  // SIGPIPE
  Pipe pipe = make_pipe();
  OutputSink sink(pipe.writer.get());
  pipe.reader.close();
  sink.write("not wanted");
  CHECK(sink.lost() == 0);

  Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE((master && ::grantpt(master.get()) == 0 && ::unlockpt(master.get()) == 0));
  const Fd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  OutputSink screen(terminal.get());
  master.close();
  CHECK(screen.write("not seen") == 8);
  CHECK(screen.error() == EIO);
  CHECK(screen.lost() == 0);

  const Fd disk(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  OutputSink full(disk.get());
  full.write("lost");
  CHECK(full.lost() == ENOSPC);
}
