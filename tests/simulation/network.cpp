#include "network.hpp"

#include <algorithm>

#include "rendezvous/host_limits.hpp"

namespace ddprun::simulation {

namespace {

constexpr Microseconds k_second{1000000};

}  // namespace

Network::Network(Clock& clock, Random& random, int hosts, Timing timing)
    : clock_(clock),
      random_(random),
      hosts_(hosts),
      timing_(timing),
      paths_(static_cast<std::size_t>(hosts * hosts), true) {}

void Network::set_path(int from, int to, bool there) {
  if (from == to || paths_[index(from, to)] == there) return;
  paths_[index(from, to)] = there;
  const std::vector<std::shared_ptr<Link>> links = links_;
  for (const auto& link : links) {
    if (link->host(0) + link->host(1) == from + to && (link->host(0) == from || link->host(0) == to))
      link->note_path();
  }
}

std::shared_ptr<Link> Network::connect(int from, int to, Milliseconds limit_from, Milliseconds limit_to) {
  std::erase_if(links_, [](const auto& link) { return !link->at(0).open && !link->at(1).open; });
  const std::array<int, 2> hosts{from, to};
  const std::array<Milliseconds, 2> limits{limit_from, limit_to};
  links_.push_back(std::make_shared<Link>(*this, hosts, limits));
  return links_.back();
}

Link::Link(Network& network, std::array<int, 2> hosts, std::array<Milliseconds, 2> limits)
    : network_(network) {
  for (const std::size_t end : {0U, 1U}) {
    ends_.emplace_back(network.clock());
    ends_.back().host = hosts.at(end);
    ends_.back().limit = limits.at(end);
  }
}

bool Link::round_trip() const {
  return network_.reaches(ends_[0].host, ends_[1].host) && network_.reaches(ends_[1].host, ends_[0].host);
}

void Link::send(int end, std::string bytes) {
  End& from = at(end);
  if (!from.open || from.finished) return;
  from.sent.push_back({std::move(bytes)});
  from.unanswered |= from.silent;
  if (from.silent && !from.sent.empty()) count_silence(end);
  deliver(end);
}

void Link::finish(int end) {
  End& from = at(end);
  if (!from.open || std::exchange(from.finished, true)) return;
  from.sent.push_back({{}, true});
  deliver(end);
}

void Link::close(int end) {
  finish(end);
  at(end).open = false;
  at(end).silence.cancel();
}

void Link::reset(int end) {
  End& from = at(end);
  if (!from.open) return;
  from.open = false;
  from.silence.cancel();
  from.sent.clear();
  send_reset(end);
}

void Link::vanish(int end) {
  End& from = at(end);
  from.open = false;
  from.finished = true;
  from.sent.clear();
  from.silence.cancel();
}

// What is on its way is lost with the path, and repeated once that is there again.
void Link::deliver(int end) {
  End& from = at(end);
  if (from.arriving || from.sent.empty() || !network_.reaches(from.host, at(1 - end).host)) return;
  from.arriving = true;
  network_.clock().after(network_.way(), [this, keep = shared_from_this(), end] {
    at(end).arriving = false;
    arrive(end);
  });
}

void Link::arrive(int end) {
  End& from = at(end);
  End& to = at(1 - end);
  if (from.sent.empty() || !network_.reaches(from.host, to.host)) return;
  const Packet packet = std::move(from.sent.front());
  from.sent.pop_front();
  if (!to.open) return from.sent.clear(), send_reset(1 - end);
  if (to.silent) {
    to.heard = network_.clock().now();
    count_silence(1 - end);
  }
  if (packet.last) {
    to.open = false;
    to.silence.cancel();
    tell_end(1 - end, ConnectionEnd::ended);
    if (!from.open) return;
    // Whoever is told of an end closes too.
    network_.clock().after(network_.way(), [this, keep = shared_from_this(), end] {
      if (!at(end).open) return;
      at(end).open = false;
      at(end).silence.cancel();
      tell_end(end, ConnectionEnd::ended);
    });
    return;
  }
  if (to.hooks.on_bytes) to.hooks.on_bytes(packet.bytes);
  deliver(end);
}

void Link::tell_end(int end, ConnectionEnd how) {
  if (at(end).hooks.on_end) at(end).hooks.on_end(how);
}

void Link::send_reset(int end) {
  if (!network_.reaches(at(end).host, at(1 - end).host)) return;
  network_.clock().after(network_.way(), [this, keep = shared_from_this(), end] {
    End& to = at(1 - end);
    if (!to.open || !network_.reaches(at(end).host, to.host)) return;
    to.open = false;
    to.sent.clear();
    to.silence.cancel();
    tell_end(1 - end, ConnectionEnd::broken);
  });
}

// Late, as kernels are, but where something was sent: that has a timer of its own (net/connection.cpp).
void Link::count_silence(int end) {
  End& each = at(end);
  const Milliseconds lateness = rendezvous::lateness(each.limit);
  const int kind = pick(network_.random(), 4);
  Microseconds late = kind == 0   ? Microseconds{0}
                      : kind == 1 ? Microseconds{lateness}
                                  : between(network_.random(), Microseconds{0}, lateness);
  if (each.unanswered) late = std::min(late, Microseconds{20000});
  each.silence.set(each.heard + each.limit + late, [this, keep = shared_from_this(), end] {
    End& lost = at(end);
    if (!lost.open) return;
    const ConnectionEnd how = lost.unanswered ? ConnectionEnd::broken : ConnectionEnd::silent;
    lost.open = false;
    lost.sent.clear();
    send_reset(end);
    tell_end(end, how);
  });
}

void Link::note_path() {
  const bool answered = round_trip();
  for (const int end : {0, 1}) {
    End& each = at(end);
    if (!each.open) {
      if (answered && at(1 - end).open && each.sent.empty() && each.finished) {
        // Its probes meet a host that knows no such connection.
        network_.clock().after(between(network_.random(), Microseconds{0}, k_second),
                               [this, keep = shared_from_this(), end] { send_reset(end); });
      } else if (answered && at(1 - end).open && !each.finished) {
        network_.clock().after(between(network_.random(), Microseconds{0}, k_second),
                               [this, keep = shared_from_this(), end] { send_reset(end); });
      }
      deliver(end);
      continue;
    }
    if (!answered && !each.silent) {
      const Milliseconds pause = rendezvous::probe_pause(each.limit);
      each.silent = true;
      each.unanswered = !each.sent.empty();
      each.heard = network_.clock().now() - between(network_.random(), Microseconds{0}, pause);
      count_silence(end);
    } else if (answered && each.silent) {
      // It goes on counting until the next probe is answered.
      network_.clock().after(between(network_.random(), Microseconds{0}, k_second),
                             [this, keep = shared_from_this(), end] {
                               if (!at(end).open || !round_trip()) return;
                               at(end).silent = at(end).unanswered = false;
                               at(end).silence.cancel();
                             });
    }
    if (network_.reaches(each.host, at(1 - end).host) && !each.sent.empty()) {
      network_.clock().after(between(network_.random(), Microseconds{0}, k_second),
                             [this, keep = shared_from_this(), end] { deliver(end); });
    }
  }
}

}  // namespace ddprun::simulation
