#include "os/process/serving_child.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "catch.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace std::chrono_literals;

TEST_CASE("a line comes whole, and what follows it is left") {
  const SocketPair pair = make_socket_pair();
  CHECK_FALSE(receive_line(pair.ours.get(), now() + 1ms));
  REQUIRE(::write(pair.theirs.get(), "gone\nmore", 9) == 9);
  CHECK(receive_line(pair.ours.get(), now() + 1s) == "gone");
  CHECK_FALSE(receive_line(pair.ours.get(), now() + 1ms));
}

TEST_CASE("the end, or a line without one, is no line") {
  SocketPair pair = make_socket_pair();
  SECTION("the end") {
    REQUIRE(::write(pair.theirs.get(), "half", 4) == 4);
    pair.theirs.close();
  }
  SECTION("no line end") {
    const std::string much(8000, 'x');
    REQUIRE(::write(pair.theirs.get(), much.data(), much.size()) == 8000);
  }
  CHECK_FALSE(receive_line(pair.ours.get(), now() + 1s));
}

TEST_CASE("descriptors come with the first byte of a text that is longer than the socket holds") {
  const SocketPair pair = make_socket_pair();
  Pipe pipe = make_pipe();
  const std::string text(2 << 20, 'x');
  std::string read;
  int passed = -1;
  std::thread reader([&] {
    std::array<char, 65536> buffer;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
    while (read.size() < text.size()) {
      iovec part{buffer.data(), buffer.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t size = ::recvmsg(pair.theirs.get(), &message, MSG_CMSG_CLOEXEC);
      if (size <= 0) return;
      if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && passed < 0)
        passed = *static_cast<const int*>(static_cast<const void*>(CMSG_DATA(header)));
      read.append(buffer.data(), static_cast<std::size_t>(size));
    }
  });
  CHECK(send_whole(pair.ours.get(), text, {pipe.writer.get()}, now() + 10s));
  reader.join();
  CHECK(read == text);
  REQUIRE(passed >= 0);
  CHECK(same_file(passed, pipe.writer.get()));
  ::close(passed);
}

TEST_CASE("a message comes with its descriptors, in their order; the end is none") {
  SocketPair pair = make_socket_pair();
  CHECK(receive_message(pair.ours.get(), 10, MSG_DONTWAIT).text.empty());
  const Pipe pipe = make_pipe();
  REQUIRE(send_whole(pair.theirs.get(), "two", {pipe.reader.get(), pipe.writer.get()}, now() + 10s));
  const ReceivedMessage received = receive_message(pair.ours.get(), 10, MSG_DONTWAIT);
  CHECK(received.text == "two");
  REQUIRE(received.descriptors.size() == 2);
  REQUIRE(::write(received.descriptors[1].get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(received.descriptors[0].get(), &byte, 1) == 1);
  pair.theirs.close();
  CHECK(receive_message(pair.ours.get(), 10).text.empty());
}

TEST_CASE("nobody who reads is no reason to wait for long, nor to be killed by SIGPIPE") {
  SocketPair pair = make_socket_pair();
  CHECK_FALSE(send_whole(pair.ours.get(), std::string(4 << 20, 'x'), {}, now() + 10ms));
  pair.theirs.close();
  CHECK_FALSE(send_whole(pair.ours.get(), "x", {}, now() + 1s));
}
