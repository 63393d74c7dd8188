#include "os/machine/capture_network.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <memory>

#include "facts/proc_text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

// The bytes of an IPv4 or IPv6 address, copied because a sockaddr may not be read as its larger kind.
struct AddressBytes {
  unsigned char bytes[16] = {};
  std::size_t size = 0;
};

AddressBytes address_bytes(const sockaddr& address) {
  AddressBytes result;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    std::memcpy(result.bytes, &v4.sin_addr, result.size = sizeof v4.sin_addr);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    std::memcpy(result.bytes, &v6.sin6_addr, result.size = sizeof v6.sin6_addr);
  }
  return result;
}

int count_bits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int bits = 0;
  for (const unsigned char byte : address_bytes(*mask).bytes) bits += std::popcount(byte);
  return bits;
}

}  // namespace

std::string capture_host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return name;
}

std::vector<facts::InterfaceAddress> capture_addresses() {
  std::vector<facts::InterfaceAddress> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_addr == nullptr) continue;
    const AddressBytes bytes = address_bytes(*entry->ifa_addr);
    char text[INET6_ADDRSTRLEN] = {};
    if (bytes.size == 0 ||
        ::inet_ntop(entry->ifa_addr->sa_family, bytes.bytes, text, sizeof text) == nullptr) {
      continue;
    }
    const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    addresses.push_back({entry->ifa_name, text, count_bits(entry->ifa_netmask), loopback});
  }
  return addresses;
}

std::pair<int, int> capture_ephemeral_ports() {
  const auto text = try_read_file("/proc/sys/net/ipv4/ip_local_port_range");
  return (text ? facts::parse_port_range(*text) : std::nullopt).value_or(facts::HostFacts{}.ephemeral_ports);
}

}  // namespace ddprun::os
