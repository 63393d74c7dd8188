// The connections by which a store and the relays below it speak with each other, for one of them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>

#include "net/connection.hpp"
#include "store/endpoint.hpp"

namespace ddprun::net {

// Links of one store. Messages of a relay that has no parent yet are kept until it is connected.
class StoreLinks {
 public:
  explicit StoreLinks(store::StoreEndpoint& endpoint) : endpoint_(endpoint) {}

  // Adds the link of a relay below this one. The reader of the connection passes its frames to hear(), and
  // calls note_drained().
  store::StoreLink add_child(std::shared_ptr<Connection> connection);
  void set_parent(std::shared_ptr<Connection> connection);
  void remove_child(store::StoreLink child);
  bool hear(store::StoreLink link, std::string_view payload) { return endpoint_.receive_from(link, payload); }
  void send(store::StoreLink link, store::LinkParts parts);
  void note_drained(store::StoreLink link);
  void close();

 private:
  void keep(store::LinkParts parts);
  void check_congestion(store::StoreLink link, std::size_t unsent);

  store::StoreEndpoint& endpoint_;
  std::map<store::StoreLink, std::shared_ptr<Connection>> connections_;
  store::LinkParts to_parent_;  // before there is one
  std::size_t kept_ = 0;        // bytes of these
};

}  // namespace ddprun::net
