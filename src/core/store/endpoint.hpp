// Peer of the clients of one port, without its sockets: the store of the job, or a relay to it on their host.
// Connections come and go, bytes go in, bytes for connections come out.
//
// Several of them make a tree, whose links carry TreeMessages (tree_message.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/request.hpp"
#include "store/session.hpp"
#include "store/store_state.hpp"
#include "store/tree_message.hpp"

namespace ddprun::store {

struct StoreDelivery {
  std::vector<StoreClient> clients;
  std::string bytes;  // bytes for each of them
};

// A value that many relays want is in the parts of all of their links.
using LinkParts = std::vector<std::shared_ptr<const std::string>>;

// Output owed to others than the client that was heard.
struct StoreOutput {
  std::vector<StoreDelivery> deliveries;
  std::vector<std::pair<StoreLink, LinkParts>> links;  // bytes for each
  std::vector<StoreClient> resumed;                    // clients that were held back
  // Clients whose connections have to be closed, and why.
  std::vector<std::pair<StoreClient, std::string>> refused;
};

class StoreEndpoint {
 public:
  // Makes an endpoint. `old_dialect`: that of clients before torch 2.2, if it is known; see session.hpp.
  StoreEndpoint(const StoreLimits& limits, std::optional<StoreDialect> old_dialect);
  virtual ~StoreEndpoint() = default;
  StoreEndpoint(const StoreEndpoint&) = delete;
  StoreEndpoint& operator=(const StoreEndpoint&) = delete;

  StoreClient connect();
  // Forgets the client; its number may be given out again.
  void disconnect(StoreClient client);

  // Appends the client's own replies to `reply` and what it causes for others to `deliveries`. Returns why
  // the connection has to be closed, if so; what is in `reply` by then is still due.
  std::optional<std::string> receive(StoreClient client, std::string_view bytes, std::string& reply,
                                     std::vector<StoreDelivery>& deliveries);

  // Reports whether complete requests of the client wait: its turn is over, or (starved) there is no memory
  // for an answer while others have not read theirs, or (held back) other stores of the tree have to be heard
  // first. receive() without bytes continues with them.
  bool paused(StoreClient client) const { return session(client).paused(); }
  bool starved(StoreClient client) const { return peers_[index(client)].starved; }
  bool held_back(StoreClient client) const { return peers_[index(client)].held_back; }
  // Reports whether the last answer about it was that there is no room for it.
  bool exceeds_memory(StoreClient client) const { return peers_[index(client)].exceeds_memory; }
  // Holds bytes for the client that the network has not taken. False: they are more than it may have.
  bool hold(StoreClient client, std::size_t bytes);
  void release(StoreClient client, std::size_t bytes);
  // Returns the number of torch's process by its own word (PING), for messages.
  std::optional<std::uint32_t> process(StoreClient client) const { return peers_[index(client)].process; }

  const StoreMemory& memory() const { return memory_; }
  const StoreSession& session(StoreClient client) const { return peers_[index(client)].session; }

  // ---- the tree

  StoreLink add_child();
  void remove_child(StoreLink child);
  // Receives bytes of a link. False: this is no word of that link, whose connection has to be closed.
  bool receive_from(StoreLink link, std::string_view bytes);
  // Notes that more than enough is on the way to the parent, or no more.
  virtual void note_congestion(bool /*congested*/) {}
  // Clients of relays of which something was passed on to here.
  virtual std::size_t clients_elsewhere() const { return 0; }
  bool has_output() const {
    return !output_.empty() || !resumed_.empty() || !refused_.empty() || !late_.empty();
  }
  // Returns the output that has come up since the last call, beside what receive() returned.
  StoreOutput take_output();

 protected:
  struct Peer {
    StoreSession session;
    std::size_t held = 0;    // bytes held by the session, as noted
    std::size_t unread = 0;  // held by hold()
    std::optional<std::uint32_t> process;
    bool starved = false;
    bool held_back = false;
    bool exceeds_memory = false;
    bool elsewhere = false;  // client of another store of the tree: it has no connection here
  };
  static std::size_t index(StoreClient client) { return static_cast<std::size_t>(client.value); }

  // Carries out one request, or says by `turn` that it waits.
  virtual std::optional<std::string> handle(StoreClient client, const StoreRequest& request,
                                            std::string& reply, std::vector<StoreDelivery>& deliveries,
                                            StoreTurn& turn) = 0;
  virtual void forget(StoreClient client) = 0;
  virtual void forget(StoreLink child) = 0;
  // Hears a message; false as receive_from().
  virtual bool hear(StoreLink link, const TreeMessage& message) = 0;

  StoreClient connect_elsewhere();
  void say(StoreLink link, const TreeMessage& message);
  // Message about one value for many links: as long as one of them has not sent it, it is not written again.
  using Written = std::weak_ptr<const std::string>;
  void say(const std::vector<StoreLink>& links, const TreeMessage& message, Written& written);
  void resume(StoreClient client);
  void refuse(StoreClient client, std::string why) { refused_.emplace_back(client, std::move(why)); }
  void deliver_late(StoreDelivery delivery) { late_.push_back(std::move(delivery)); }
  void note_process(StoreClient client, const StoreRequest& request);
  std::string refuse_memory(StoreClient client, std::size_t bytes);
  Peer& peer(StoreClient client) { return peers_[index(client)]; }
  std::size_t unread() const { return unread_; }
  std::vector<StoreLink> children() const;
  bool had_children() const { return last_link_ > 0; }

  const StoreLimits limits_;
  StoreMemory memory_;

 private:
  StoreClient add_peer();
  std::optional<std::string> account_for_half_a_request(StoreClient client);

  OldTorch old_torch_;
  std::size_t unread_ = 0;  // sum over all clients
  std::vector<Peer> peers_;
  std::vector<StoreClient> free_;
  std::unordered_map<int, TreeReader> links_;  // the parent's too
  int last_link_ = 0;
  struct Owed {
    LinkParts parts;
    std::string rest;  // behind them
  };
  std::unordered_map<int, Owed> output_;  // indexed by link; entries are never empty
  std::vector<StoreDelivery> late_;
  std::vector<StoreClient> resumed_;
  std::vector<std::pair<StoreClient, std::string>> refused_;
};

inline constexpr StoreLink k_parent_link{0};
// Returns a key for tables indexed by a child's link and its channel.
inline std::uint64_t place_of(StoreLink child, std::uint32_t channel) {
  return static_cast<std::uint64_t>(child.value) << 32U | channel;
}
// Unread bytes that any connection may have.
inline constexpr std::size_t k_small_answer = 64 * 1024;

}  // namespace ddprun::store
