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

// A stream in both directions, both ends close-on-exec. Throws Error where there can be none.
SocketPair make_socket_pair();

// The descriptors come with the first byte. False when the peer is gone or has not read it all by then.
bool send_whole(int socket, std::string_view text, const std::vector<int>& descriptors, TimePoint deadline);

// Up to a line end, which is left out; nothing when the peer ends before it, says more than 4 KiB without
// one, or has not by then.
std::optional<std::string> receive_line(int socket, TimePoint deadline);

}  // namespace ddprun::os
