// TCP connections of a program without an event loop, and a client of the c10d store over one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

// A client of the c10d store, in the dialect of torch 2.2 and newer, for a program without an event loop.

class StoreClient {
 public:
  // Connects to the store at this address, or the first one of a host of this name. Throws Error naming it if
  // it cannot be reached.
  StoreClient(const std::string& address, int port);

  // Throws Error where the store is gone.
  void set(const std::string& key, const std::string& value);
  // Waits until the key is there; nullopt when it is not within the limit.
  std::optional<std::string> get(const std::string& key, Milliseconds limit);
  // Adds to the number in the key, 0 if there is none, and returns it.
  std::int64_t add(const std::string& key, std::int64_t number);

  // Asks for a key without waiting: descriptor() is readable once it is there, and take() then returns its
  // value. Nothing else may be asked meanwhile.
  void ask(const std::string& key);
  std::string take();
  int descriptor() const { return socket_.descriptor(); }

  // Returns this host's end of the connection.
  std::string local_address() const { return socket_.local_address(); }

 private:
  void connect();
  std::string fetch(const std::string& key);
  [[noreturn]] void fail(const std::string& why) const;

  std::string address_;
  int port_;
  TimedSocket socket_;
  std::string asked_;
};

}  // namespace ddprun::net
