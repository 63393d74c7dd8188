#include "ddprun/plan/nearest_nic.hpp"
#include "overlap.hpp"

#include <algorithm>
#include <compare>
namespace ddprun {

namespace {

// Names of RDMA devices by driver, also as rdma-core's udev rules spell them (roce...); interfaces (ib0,
// hsn0) are none that NCCL_IB_HCA takes.
constexpr const char* k_rdma_prefixes[] = {"mlx4_", "mlx5_", "hfi1_", "bnxt_re", "irdma", "ionic_", "roce"};
constexpr const char* k_slingshot_prefix = "cxi";

std::string card_name(const PciDevice& device) {
  if (device.kind != DeviceKind::network) return {};
  for (const std::string& name : device.names) {
    if (name.starts_with(k_slingshot_prefix)) return name;
    for (const char* prefix : k_rdma_prefixes) {
      if (name.starts_with(prefix)) return name;
    }
  }
  return {};
}

struct Card {
  std::string name;
  const PciDevice* device = nullptr;
  int workers = 0;
};

struct Nearness {
  std::size_t bridges = 0;  // in common
  bool cpus = false;        // in common
  friend auto operator<=>(const Nearness&, const Nearness&) = default;
};

std::size_t shared_bridges(const PciDevice& one, const PciDevice& other) {
  const auto [end, unused] =
      std::mismatch(one.path.begin(), one.path.end(), other.path.begin(), other.path.end());
  return static_cast<std::size_t>(end - one.path.begin());
}

Nearness nearness_of(const Card& card, const std::vector<const PciDevice*>& gpus,
                     const std::vector<int>& cpus) {
  Nearness nearest;
  for (const PciDevice* gpu : gpus) {
    nearest = std::max(nearest,
                       Nearness{shared_bridges(*card.device, *gpu), overlap(card.device->cpus, gpu->cpus)});
  }
  if (gpus.empty()) nearest.cpus = overlap(card.device->cpus, cpus);
  return nearest;
}

std::vector<const PciDevice*> devices_at(const Topology& topology,
                                         const std::vector<std::string>& addresses) {
  std::vector<const PciDevice*> found;
  for (const PciDevice& device : topology.devices) {
    const bool wanted = std::any_of(addresses.begin(), addresses.end(),
                                    [&](const std::string& address) { return address == device.address; });
    if (wanted) found.push_back(&device);
  }
  return found;
}

// Of equally near ones those with fewest workers, and of these one by local rank: agents of a host that each
// choose for one worker spread as well.
Card& choose_card(std::vector<Card>& cards, const std::vector<const PciDevice*>& gpus,
                  const CardSeeker& seeker) {
  std::vector<std::pair<Nearness, Card*>> rated;
  Nearness best;
  for (Card& card : cards) {
    rated.emplace_back(nearness_of(card, gpus, seeker.cpus), &card);
    best = std::max(best, rated.back().first);
  }
  std::erase_if(rated, [&](const auto& each) { return each.first != best; });
  const auto first =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(seeker.local_rank.value) % rated.size());
  std::rotate(rated.begin(), rated.begin() + first, rated.end());
  return *std::min_element(rated.begin(), rated.end(), [](const auto& one, const auto& other) {
            return one.second->workers < other.second->workers;
          })->second;
}

}  // namespace

std::vector<std::string> choose_network_cards(const Topology& topology,
                                              const std::vector<CardSeeker>& seekers) {
  std::vector<Card> cards;
  for (const PciDevice& device : topology.devices) {
    std::string name = card_name(device);
    if (!name.empty()) cards.push_back({std::move(name), &device});
  }
  std::vector<std::string> chosen(seekers.size());
  if (cards.empty()) return chosen;
  for (std::size_t i = 0; i < seekers.size(); ++i) {
    Card& card = choose_card(cards, devices_at(topology, seekers[i].addresses), seekers[i]);
    ++card.workers;
    chosen[i] = card.name;
  }
  return chosen;
}

CardVariable card_variable(const std::string& card) {
  if (card.starts_with(k_slingshot_prefix)) return {"FI_CXI_DEVICE_NAME", card};
  return {"NCCL_IB_HCA", "=" + card};
}

}  // namespace ddprun
