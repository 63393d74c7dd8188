#include "os/machine/capture_network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/process/process_table.hpp"
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

namespace {

constexpr std::size_t k_table_limit = std::size_t{8} << 20;

std::string target_of(const std::filesystem::path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).string();
}

// "socket:[INODE]" of the listeners on the port: "sl local_address rem_address st ...", state 0A, the inode
// in the tenth column (proc_pid_net(5)).
std::set<std::string> listeners_of(int port) {
  const std::string ending = fmt::format(":{:04X}", port);
  std::set<std::string> sockets;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    for (const std::string& line : split(try_read_file(table, k_table_limit).value_or(""), '\n')) {
      const std::vector<std::string> columns = split_words(line);
      if (columns.size() < 10 || columns[3] != "0A" || !columns[1].ends_with(ending)) continue;
      sockets.insert(fmt::format("socket:[{}]", columns[9]));
    }
  }
  return sockets;
}

bool holds(int pid, const std::set<std::string>& sockets) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end;
       !error && entry != end; entry.increment(error)) {
    if (sockets.contains(target_of(entry->path()))) return true;
  }
  return false;
}

}  // namespace

std::optional<PortHolder> find_port_holder(int port) {
  const std::set<std::string> sockets = listeners_of(port);
  if (sockets.empty()) return std::nullopt;
  for (const ProcessEntry& process : capture_processes()) {
    if (!holds(process.pid, sockets)) continue;
    const std::string file = target_of(fmt::format("/proc/{}/exe", process.pid));
    return PortHolder{process.pid, process.name, !file.empty() && file == target_of("/proc/self/exe")};
  }
  return std::nullopt;
}

}  // namespace ddprun::os
