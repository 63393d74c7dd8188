// A store, relays below it and clients of them, between which messages are under way for any time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/relay.hpp"
#include "store/service.hpp"
#include "store_wire.hpp"

namespace store_tree {

using namespace ddprun::store;

class Tree {
 public:
  // parents[i] is that of endpoint i + 1; endpoint 0 is the store.
  // `dialect`: of clients before torch 2.2.
  explicit Tree(const std::vector<std::size_t>& parents, std::size_t held = 1 << 20,
                std::optional<StoreDialect> dialect = std::nullopt, const StoreLimits& limits = {}) {
    nodes_.emplace_back().endpoint = std::make_unique<StoreService>(limits, dialect);
    for (const std::size_t parent : parents) {
      const StoreLink at_parent = nodes_[parent].endpoint->add_child();
      Node& node = nodes_.emplace_back();
      node.endpoint = std::make_unique<StoreRelay>(limits, dialect, held);
      node.parent = parent;
      node.at_parent = at_parent;
    }
  }

  std::size_t connect(std::size_t node) {
    const std::size_t client = connect_silent(node);
    send(client, store_wire::k_hello);
    return client;
  }
  std::size_t connect_silent(std::size_t node) {
    Client& client = clients_.emplace_back();
    client.node = node;
    client.number = nodes_[node].endpoint->connect();
    return clients_.size() - 1;
  }
  void send(std::size_t client, const std::string& bytes) { clients_[client].input.push_back(bytes); }
  // What has come for it and was not taken.
  std::string& answers(std::size_t client) { return clients_[client].output; }

  StoreEndpoint& endpoint(std::size_t node) { return *nodes_[node].endpoint; }
  StoreService& store() { return static_cast<StoreService&>(*nodes_[0].endpoint); }
  bool lost(std::size_t node) const { return nodes_[node].lost; }
  std::size_t bytes_down(std::size_t node) const { return nodes_[node].bytes_down; }
  std::size_t node_of(std::size_t client) const { return clients_[client].node; }
  const std::string& complaint() const { return complaint_; }

  // All that was sent by links, which are as slow as can be: what is shared of it may be sent again.
  const LinkParts& parts() const { return parts_; }

  // One of what is under way arrives, or a part of it. False: nothing is.
  bool step(std::mt19937& random) {
    std::vector<std::pair<int, std::size_t>> possible;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const Client& client = clients_[i];
      if (!client.input.empty() && !nodes_[client.node].lost && !waits(client)) possible.emplace_back(0, i);
    }
    for (std::size_t i = 1; i < nodes_.size(); ++i) {
      if (nodes_[i].lost) continue;
      if (!nodes_[i].up.empty()) possible.emplace_back(1, i);
      if (!nodes_[i].down.empty()) possible.emplace_back(2, i);
    }
    if (possible.empty()) return false;
    const auto [what, which] = possible[random() % possible.size()];
    if (what == 0) take_from_client(which);
    if (what == 1) hear(nodes_[which].parent, nodes_[which].at_parent, cut(nodes_[which].up, random));
    if (what == 2) hear(which, k_parent_link, cut(nodes_[which].down, random));
    return true;
  }
  void settle(std::mt19937& random) {
    while (step(random)) continue;
  }
  // The host of a relay is lost, and what is below it with it.
  void lose(std::size_t node) {
    if (std::exchange(nodes_[node].lost, true)) return;
    if (!nodes_[nodes_[node].parent].lost) {
      nodes_[nodes_[node].parent].endpoint->remove_child(nodes_[node].at_parent);
      collect(nodes_[node].parent);
    }
    for (std::size_t i = node + 1; i < nodes_.size(); ++i) {
      if (nodes_[i].parent == node) lose(i);
    }
  }
  void disconnect(std::size_t client) {
    Client& gone = clients_[client];
    endpoint(gone.node).disconnect(gone.number);
    gone.input.clear();
    collect(gone.node);
  }

 private:
  struct Node {
    std::unique_ptr<StoreEndpoint> endpoint;
    std::size_t parent = 0;
    StoreLink at_parent;
    std::string up;
    std::string down;
    bool lost = false;
    std::size_t bytes_down = 0;
  };
  struct Client {
    std::size_t node = 0;
    StoreClient number;
    std::deque<std::string> input;
    std::string output;
  };

  bool waits(const Client& client) const { return nodes_[client.node].endpoint->paused(client.number); }
  static std::string cut(std::string& bytes, std::mt19937& random) {
    const std::size_t length = random() % 4 == 0 ? 1 + random() % bytes.size() : bytes.size();
    std::string first = bytes.substr(0, length);
    bytes.erase(0, length);
    return first;
  }
  void take_from_client(std::size_t which) {
    Client& client = clients_[which];
    const std::string bytes = client.input.front();
    client.input.pop_front();
    pass(client.node, client.number, bytes);
  }
  void pass(std::size_t node, StoreClient number, const std::string& bytes) {
    std::vector<StoreDelivery> deliveries;
    std::string reply;
    const auto complaint = endpoint(node).receive(number, bytes, reply, deliveries);
    if (complaint) complaint_ = *complaint;
    deliver(node, {{number}, reply});
    for (const StoreDelivery& delivery : deliveries) deliver(node, delivery);
    collect(node);
  }
  void deliver(std::size_t node, const StoreDelivery& delivery) {
    for (const StoreClient number : delivery.clients) {
      for (Client& client : clients_) {
        if (client.node == node && client.number == number) client.output += delivery.bytes;
      }
    }
  }
  void hear(std::size_t node, StoreLink link, const std::string& bytes) {
    if (!endpoint(node).receive_from(link, bytes)) throw std::runtime_error("a relay is not understood");
    collect(node);
  }
  void collect(std::size_t node) {
    while (endpoint(node).has_output()) {
      const StoreOutput output = endpoint(node).take_output();
      for (const StoreDelivery& delivery : output.deliveries) deliver(node, delivery);
      for (const auto& [link, parts] : output.links) {
        for (const auto& part : parts) route(node, link, *part);
        parts_.insert(parts_.end(), parts.begin(), parts.end());
      }
      for (const auto& [client, why] : output.refused) complaint_ = why;
      for (const StoreClient client : output.resumed) pass(node, client, "");
    }
  }
  void route(std::size_t node, StoreLink link, const std::string& bytes) {
    if (link == k_parent_link) {
      nodes_[node].up += bytes;
      return;
    }
    for (std::size_t i = node + 1; i < nodes_.size(); ++i) {
      if (nodes_[i].parent != node || nodes_[i].at_parent != link) continue;
      nodes_[i].down += bytes;
      nodes_[i].bytes_down += bytes.size();
    }
  }

  std::vector<Node> nodes_;
  std::vector<Client> clients_;
  LinkParts parts_;
  std::string complaint_;
};

}  // namespace store_tree
