#include "os/core_claims.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace ddprun::os {

namespace {

Fd claim_core(int first_cpu) {
  const std::string name = fmt::format("ddprun/core/{}", first_cpu);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // the path begins with a null byte: no file, unix(7)
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool bound = socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
  return bound ? std::move(socket) : Fd();
}

}  // namespace

std::vector<int> CoreClaims::claim(const std::vector<std::vector<int>>& cores, int count) {
  std::vector<int> cpus;
  for (const std::vector<int>& core : cores) {
    if (claims_.size() == static_cast<std::size_t>(count)) break;
    Fd claim = claim_core(core.front());
    if (!claim) continue;
    claims_.push_back(std::move(claim));
    cpus.insert(cpus.end(), core.begin(), core.end());
  }
  if (claims_.size() < static_cast<std::size_t>(count)) {
    claims_.clear();
    return {};
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

}  // namespace ddprun::os
