#include "placement/nearest_nic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>

#include "base/text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

// Names of RDMA devices by driver, for descriptions that do not tell which name is that device's. Interfaces
// (ib0, hsn0) are none that NCCL_IB_HCA takes.
constexpr const char* k_rdma_prefixes[] = {"mlx4_", "mlx5_",  "hfi1_", "bnxt_re",
                                           "irdma", "ionic_", "roce",  "cxi"};
constexpr const char* k_slingshot_prefix = "cxi";
// Amazon's, as its driver and rdma-core name it. It is used through libfabric, which gives each GPU all cards
// near it: one name for each worker would leave most of them idle.
constexpr const char* k_efa_prefixes[] = {"efa_", "rdmap"};

template <class Prefixes>
bool starts_with_any(const std::string& name, const Prefixes& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

std::string rdma_name(const facts::PciDevice& device) {
  if (device.kind != facts::DeviceKind::network) return {};
  if (!device.rdma.empty()) return device.rdma;
  for (const std::string& name : device.names) {
    if (starts_with_any(name, k_rdma_prefixes) || starts_with_any(name, k_efa_prefixes)) return name;
  }
  return {};
}

struct Card {
  std::string name;
  const facts::PciDevice* device = nullptr;
  int workers = 0;
};

// Location of a device or of CPUs: indexes into Topology::nodes, and packages.
struct Place {
  std::vector<int> nodes;
  std::vector<int> packages;
};

Place place_of(const facts::Topology& topology, const std::vector<int>& cpus) {
  Place place;
  for (const facts::Core& core : topology.cores) {
    if (!overlap(core.cpus, cpus)) continue;
    place.nodes.push_back(core.node);
    place.packages.push_back(core.package);
  }
  for (std::vector<int>* numbers : {&place.nodes, &place.packages}) {
    std::ranges::sort(*numbers);
    numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  }
  return place;
}

struct Nearness {
  std::size_t bridges = 0;     // in common
  bool cpus = false;           // in common
  bool package = false;        // in common
  int distance = -k_farthest;  // negative distance of the nearest NUMA nodes
  friend auto operator<=>(const Nearness&, const Nearness&) = default;

  static constexpr int k_farthest = 1 << 16;
};

std::size_t shared_bridges(const facts::PciDevice& one, const facts::PciDevice& other) {
  const auto [end, unused] =
      std::mismatch(one.path.begin(), one.path.end(), other.path.begin(), other.path.end());
  return static_cast<std::size_t>(end - one.path.begin());
}

// Returns the nearness of a card to CPUs.
Nearness nearness_of(const facts::Topology& topology, const facts::PciDevice& card,
                     const std::vector<int>& cpus) {
  Nearness nearness;
  nearness.cpus = overlap(card.cpus, cpus);
  const Place one = place_of(topology, card.cpus);
  const Place other = place_of(topology, cpus);
  nearness.package = overlap(one.packages, other.packages);
  for (const int from : other.nodes) {
    for (const int to : one.nodes) {
      if (topology.distances.empty()) continue;
      const int distance = topology.distances[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
      nearness.distance = std::max(nearness.distance, -distance);
    }
  }
  return nearness;
}

Nearness nearness_of(const facts::Topology& topology, const Card& card,
                     const std::vector<const facts::PciDevice*>& gpus, const std::vector<int>& cpus) {
  if (gpus.empty()) return nearness_of(topology, *card.device, cpus);
  Nearness nearest;
  for (const facts::PciDevice* gpu : gpus) {
    Nearness nearness = nearness_of(topology, *card.device, gpu->cpus);
    nearness.bridges = shared_bridges(*card.device, *gpu);
    nearest = std::max(nearest, nearness);
  }
  return nearest;
}

std::vector<const facts::PciDevice*> devices_at(const facts::Topology& topology,
                                                const std::vector<std::string>& addresses) {
  std::vector<const facts::PciDevice*> found;
  for (const facts::PciDevice& device : topology.devices) {
    const bool wanted =
        std::ranges::any_of(addresses, [&](const std::string& address) { return address == device.address; });
    if (wanted) found.push_back(&device);
  }
  return found;
}

// Chooses among equally near cards one with the fewest workers, and of these one by local rank: agents of a
// host that each choose for one worker spread as well.
Card& choose_card(const facts::Topology& topology, std::vector<Card>& cards, const CardSeeker& seeker) {
  const std::vector<const facts::PciDevice*> gpus = devices_at(topology, seeker.addresses);
  std::vector<std::pair<Nearness, Card*>> rated;
  Nearness best;
  for (Card& card : cards) {
    rated.emplace_back(nearness_of(topology, card, gpus, seeker.cpus), &card);
    best = std::max(best, rated.back().first);
  }
  std::erase_if(rated, [&](const auto& each) { return each.first != best; });
  const auto first =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(seeker.local_rank.value) % rated.size());
  std::rotate(rated.begin(), rated.begin() + first, rated.end());
  return *std::ranges::min_element(rated, [](const auto& one, const auto& other) {
            return one.second->workers < other.second->workers;
          })->second;
}

// Returns the cards that can be used. An Ethernet one beside InfiniBand is for storage or the outside, unless
// there are more of its kind.
std::vector<Card> find_cards(const facts::Topology& topology) {
  std::vector<Card> cards;
  for (const facts::PciDevice& device : topology.devices) {
    std::string name = rdma_name(device);
    if (name.empty() || device.link == facts::CardLink::down || starts_with_any(name, k_efa_prefixes))
      continue;
    cards.push_back({std::move(name), &device});
  }
  const auto count = [&](facts::CardLink link) {
    return std::ranges::count_if(cards, [&](const Card& card) { return card.device->link == link; });
  };
  const auto infiniband = count(facts::CardLink::infiniband);
  if (infiniband > 0 && infiniband >= count(facts::CardLink::ethernet))
    std::erase_if(cards, [](const Card& card) { return card.device->link == facts::CardLink::ethernet; });
  return cards;
}

}  // namespace

std::vector<std::string> choose_network_cards(const facts::Topology& topology,
                                              const std::vector<CardSeeker>& seekers) {
  std::vector<Card> cards = find_cards(topology);
  std::vector<std::string> chosen(seekers.size());
  if (cards.empty()) return chosen;
  for (std::size_t i = 0; i < seekers.size(); ++i) {
    Card& card = choose_card(topology, cards, seekers[i]);
    ++card.workers;
    chosen[i] = card.name;
  }
  return chosen;
}

std::string why_no_card(const facts::Topology& topology, const std::string& host) {
  std::vector<std::string> down;
  std::vector<std::string> efa;
  for (const facts::PciDevice& device : topology.devices) {
    const std::string name = printable(rdma_name(device), 40);
    if (name.empty()) continue;
    (starts_with_any(name, k_efa_prefixes) ? efa : down).push_back(name);
  }
  if (!down.empty()) return fmt::format("no port of {} is active on {}", join(down, ", "), host);
  if (!efa.empty())
    return fmt::format("the cards of {} are EFA ({}), among which libfabric chooses", host, join(efa, ", "));
  return fmt::format("no InfiniBand, RoCE, Omni-Path or Slingshot card is seen on {}", host);
}

CardVariable card_variable(const std::string& card) {
  if (card.starts_with(k_slingshot_prefix)) return {"FI_CXI_DEVICE_NAME", card};
  return {"NCCL_IB_HCA", "=" + card};
}

}  // namespace ddprun::placement
