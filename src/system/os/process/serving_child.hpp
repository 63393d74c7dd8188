// A child that answers one request after the other by calling into a library that may hang or crash.
// Against a child for each call (os/process/child_call.hpp) it saves the fork and the loading of the library.
#pragma once

#include <sys/types.h>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/descriptors.hpp"
#include "os/process/child_call.hpp"

namespace ddprun::os {

// Talking with a child through a socket that it has as its standard input.
struct SocketPair {
  Fd ours;    // does not block
  Fd theirs;  // blocks
};

// Makes a stream in both directions, both ends close-on-exec. Throws Error if there can be none.
SocketPair make_socket_pair();

// Sends the text with the descriptors in its first byte. False when the peer is gone or has not read it all
// by then.
bool send_whole(int socket, std::string_view text, const std::vector<int>& descriptors, TimePoint deadline);

// A message as it was sent, and the descriptors that came with it, close-on-exec.
struct ReceivedMessage {
  std::string text;  // empty: the peer has ended, or there is no message
  std::vector<Fd> descriptors;
};

// Receives one message of at most `longest` bytes. `flags`: of recvmsg(2), such as MSG_DONTWAIT.
ReceivedMessage receive_message(int socket, std::size_t longest, int flags = 0);

// Tells the child that all is over, which it sees as the end of what it reads, and waits until it has ended
// or for so many milliseconds. Closes the socket.
void end_by_socket(int socket, int milliseconds);

// Receives up to a line end, which is left out; nullopt when the peer ends before it, sends more than 4 KiB
// without one, or none by then.
std::optional<std::string> receive_line(int socket, TimePoint deadline);

class ServingChild {
 public:
  static constexpr std::size_t k_limit = 65536;  // size of a request and of an answer, in bytes

  using Serve = std::function<std::string(const std::string& request)>;
  // Makes a child whose answers come from `prepare`, which runs in it, once. The child is started by the
  // first request, and leaves by itself when none comes for `idle`; the next one starts another.
  explicit ServingChild(std::function<Serve()> prepare, Milliseconds idle = Milliseconds{1000});
  ~ServingChild() { end(); }
  ServingChild(const ServingChild&) = delete;
  ServingChild& operator=(const ServingChild&) = delete;

  // Blocks until there is an answer or `deadline` has passed; then the child is ended, and whatever it is
  // stuck in with it.
  ChildAnswer ask(const std::string& request, Milliseconds deadline);
  pid_t child() const { return child_; }  // -1: none now

 private:
  std::string start(const std::string& request);
  void end();

  std::function<Serve()> prepare_;
  Milliseconds idle_;
  Fd socket_;
  Fd process_;  // its pidfd; empty before Linux 5.3
  pid_t child_ = -1;
};

}  // namespace ddprun::os
