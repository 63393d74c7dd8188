#include "rendezvous/host_limits.hpp"

#include <algorithm>

namespace ddprun::rendezvous {

namespace {

constexpr std::int64_t k_most_probes = 100;    // Linux takes 127
constexpr std::int64_t k_longest_pause = 300;  // and any pause; a limit of hours ends somewhere
constexpr Milliseconds k_search_margin{30000};

}  // namespace

Milliseconds probe_pause(Milliseconds limit) {
  const std::int64_t seconds = std::chrono::ceil<std::chrono::seconds>(limit).count();
  return std::chrono::seconds(
      std::clamp<std::int64_t>((seconds + k_most_probes - 1) / k_most_probes, 1, k_longest_pause));
}

Milliseconds lateness(Milliseconds limit) { return std::max(Milliseconds{1000}, limit / 8); }

// Returns the limit by which the member notices a loss first: at x + limit + lateness at the latest, and the
// coordinator at x - pause + H at the earliest.
Milliseconds member_limit(Milliseconds host_timeout) {
  const Milliseconds pause = probe_pause(host_timeout);
  const Milliseconds earlier = pause + lateness(host_timeout) + k_killing;
  return host_timeout - (earlier + pause - Milliseconds{1}) / pause * pause;
}

// Allows for the earliest loss by the majority, at x - pause + member_limit.
Milliseconds wait_for_coordinator(Milliseconds host_timeout) {
  return host_timeout - member_limit(host_timeout) + probe_pause(host_timeout) + lateness(host_timeout) +
         k_killing;
}

// Adds the limit of those others: once the coordinator has lost its majority it sends them nothing more.
Milliseconds wait_for_others(Milliseconds host_timeout) {
  const Milliseconds limit = member_limit(host_timeout);
  return wait_for_coordinator(host_timeout) + limit + lateness(limit);
}

Milliseconds wait_for_late(Milliseconds host_timeout) {
  return lateness(host_timeout) + k_killing + k_finding;
}

Milliseconds successor_turn(Milliseconds host_timeout) {
  return probe_pause(host_timeout) + lateness(host_timeout) + k_finding;
}

Milliseconds longest_search(Milliseconds host_timeout) {
  return wait_for_others(host_timeout) + k_search_margin;
}

}  // namespace ddprun::rendezvous
