// A client of the c10d store, in the dialect of torch 2.2 and newer, for a program without an event loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/duration.hpp"
#include "net/timed_socket.hpp"

namespace ddprun::net {

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
