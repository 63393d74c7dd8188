#include "plan/ports.hpp"

#include <algorithm>

namespace ddprun::plan {

namespace {

constexpr int k_torchrun_port = 29500;  // possibly held by another launcher of the same user

std::uint64_t next_of(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace

// Hashes by FNV-1a, which splitmix64 finishes for the ports; std::hash may differ between builds.
std::uint64_t launch_hash(const std::string& launch_key) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : launch_key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::vector<int> make_port_sequence(const std::string& launch_key, int count, PortRange range) {
  const int size = range.last - range.first + 1;
  const bool holds_torchrun = range.first <= k_torchrun_port && k_torchrun_port <= range.last;
  count = std::min(count, holds_torchrun ? size - 1 : size);
  std::vector<int> ports;
  std::uint64_t state = launch_hash(launch_key);
  while (static_cast<int>(ports.size()) < count) {
    const int port = range.first + static_cast<int>(next_of(state) % static_cast<std::uint64_t>(size));
    const bool taken = port == k_torchrun_port || std::ranges::find(ports, port) != ports.end();
    if (!taken) ports.push_back(port);
  }
  return ports;
}

}  // namespace ddprun::plan
