// Talking with a child through a socket that it has as its standard input.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/fd.hpp"

namespace ddprun::os {

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

}  // namespace ddprun::os
