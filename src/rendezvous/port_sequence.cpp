#include "ddprun/rendezvous/port_sequence.hpp"

#include <algorithm>
#include <cstdint>

namespace ddprun {

namespace {

constexpr int k_torchrun_port = 29500;

// FNV-1a, then splitmix64 steps: fixed for all time and platforms, unlike std::hash.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return value;
}

std::uint64_t next_number(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t value = state;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9U;
  value = (value ^ value >> 27) * 0x94d049bb133111ebU;
  return value ^ value >> 31;
}

}  // namespace

std::vector<int> rendezvous_ports(const std::string& launch_key, int count) {
  constexpr int k_range = k_last_rendezvous_port - k_first_rendezvous_port + 1;
  const auto wanted = static_cast<std::size_t>(std::clamp(count, 0, k_range / 2));
  std::vector<int> ports;
  std::uint64_t state = hash(launch_key);
  while (ports.size() < wanted) {
    const int port = k_first_rendezvous_port + static_cast<int>(next_number(state) % k_range);
    if (port == k_torchrun_port || std::count(ports.begin(), ports.end(), port) > 0) continue;
    ports.push_back(port);
  }
  return ports;
}

}  // namespace ddprun
