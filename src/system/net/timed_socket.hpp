// A TCP connection of a program without an event loop: every call waits, and none for longer than it is told.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/duration.hpp"

namespace ddprun::net {

class TimedSocket {
 public:
  TimedSocket() = default;
  // Takes over a connected socket that does not block.
  explicit TimedSocket(int connected) : descriptor_(connected) {}
  ~TimedSocket();
  TimedSocket(TimedSocket&& other) noexcept;
  TimedSocket& operator=(TimedSocket&& other) noexcept;

  // Connects to a numeric address. Returns an empty text, or the reason of a failure: "connection refused",
  // "no answer".
  std::string connect(const std::string& address, int port, Milliseconds limit);

  // Writes all of it, or returns false: the connection has failed or the time is over, and it is of no
  // further use.
  bool write(std::string_view bytes, Milliseconds limit);
  bool read(char* target, std::size_t size, Milliseconds limit);
  // Reads what has come, at most that much; 0: nothing within the limit, negative: it has failed or ended.
  std::ptrdiff_t read_some(char* target, std::size_t most, Milliseconds limit);
  // Writes what can be written at once; 0: nothing within the limit, negative: it has failed.
  std::ptrdiff_t write_some(std::string_view bytes, Milliseconds limit);
  // Ends writing: the peer reads the end behind what was written.
  bool end_writing();

  int descriptor() const { return descriptor_; }
  std::string local_address() const;
  int path_mtu() const;  // bytes that the kernel would send in one packet; 0: not known

 private:
  int descriptor_ = -1;
};

}  // namespace ddprun::net
