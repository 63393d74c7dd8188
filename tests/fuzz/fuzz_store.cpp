// Four clients of one store send anything, in any pieces, and come and go. Every piece also goes, byte by
// byte, to a second store, which has to do the same.
//
// Input: one byte for what is known of old torch (0 nothing, 1 torch 2.1, 2 torch 2.0), then commands of one
// byte: the client in the low two bits; with 0x40 it disconnects and another takes its place; else a length
// byte and that many bytes to send.
#include <algorithm>
#include <array>

#include "promise.hpp"
#include "store/service.hpp"

namespace {

using namespace ddprun;
using fuzz::require;

constexpr int k_clients = 4;

store::StoreLimits small_limits() {
  store::StoreLimits limits;
  limits.key = 64;
  limits.value = 512;
  limits.items = 32;
  limits.request = 2048;
  limits.reply = 1024 * 1024;  // counts per read, so that pieces could differ
  return limits;
}

struct Store {
  explicit Store(std::optional<store::StoreDialect> old_dialect) : service(small_limits(), old_dialect) {
    for (int i = 0; i < k_clients; ++i) service.connect();
  }

  bool send(store::StoreClient client, std::string_view bytes) {
    std::string reply;
    std::vector<store::StoreDelivery> deliveries;
    bool fine = !service.receive(client, bytes, reply, deliveries);
    while (fine && service.paused(client) && !service.starved(client))
      fine = !service.receive(client, {}, reply, deliveries);
    received[static_cast<std::size_t>(client.value)] += reply;
    for (const store::StoreDelivery& delivery : deliveries) {
      for (const store::StoreClient each : delivery.clients)
        received[static_cast<std::size_t>(each.value)] += delivery.bytes;
    }
    return fine;
  }
  void replace(store::StoreClient client) {
    service.disconnect(client);
    if (service.connect() != client) std::abort();
  }

  store::StoreService service;
  std::array<std::string, k_clients> received;
};

bool send_byte_by_byte(Store& store, store::StoreClient client, std::string_view bytes) {
  for (const char& byte : bytes) {
    if (!store.send(client, {&byte, 1})) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::array<std::optional<store::StoreDialect>, 3> k_known{
      std::nullopt, store::StoreDialect::torch_2_1, store::StoreDialect::torch_2_0};
  const auto known = k_known[data[0] % k_known.size()];
  Store whole(known);
  Store pieces(known);
  for (std::size_t at = 1; at < size;) {
    const std::uint8_t command = data[at++];
    const store::StoreClient client{command % k_clients};
    if ((command & 0x40) != 0) {
      whole.replace(client);
      pieces.replace(client);
      continue;
    }
    if (at == size) break;
    const std::size_t announced = data[at++];
    const std::size_t length = std::min(announced, size - at);
    const std::string_view bytes(reinterpret_cast<const char*>(data) + at, length);
    at += length;
    const bool fine = whole.send(client, bytes);
    // Without knowledge the cut itself is evidence; see session.hpp.
    if (known) require(send_byte_by_byte(pieces, client, bytes) == fine && pieces.received == whole.received);
    if (!fine) whole.replace(client);
    if (!fine) pieces.replace(client);
  }
  for (int i = 0; i < k_clients; ++i) whole.replace(store::StoreClient{i});
  require(whole.service.state().listed() == 0);
  require(whole.service.memory().used() == whole.service.state().bytes());
  return 0;
}
