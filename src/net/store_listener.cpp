#include "net/store_listener.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstdint>

#include "base/error.hpp"

namespace ddprun::net {
namespace {

constexpr std::size_t k_descriptors_kept = 256;  // for the rest of the program
constexpr std::size_t k_least_connections = 64;

}  // namespace

std::string error_text(int error) {
  return boost::system::error_code(error, boost::system::system_category()).message();
}

BoundSocket listen_on(int port, int backlog) {
  const BoundSocket listener = bind_port(port, backlog);
  if (listener.error == 0) return listener;
  const std::string where = port == 0 ? std::string("any port") : fmt::format("port {}", port);
  std::string hint;
  if (listener.error == EADDRINUSE)
    hint = "another program listens there; choose another port or leave the choice to ddprun";
  if (listener.error == EACCES) hint = "ports below 1024 need privileges; choose a higher one";
  throw Error(fmt::format("the store cannot listen on {}: {}", where, error_text(listener.error)), hint);
}

BoundSocket listen_on_loopback(int backlog) {
  const BoundSocket listener = bind_loopback(backlog);
  if (listener.error == 0) return listener;
  throw Error(fmt::format("the store cannot listen on 127.0.0.1: {}", error_text(listener.error)));
}

std::size_t connections_allowed() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX / 4;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  return std::max(k_least_connections, descriptors - std::min(descriptors / 4, k_descriptors_kept));
}

bool out_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace ddprun::net
