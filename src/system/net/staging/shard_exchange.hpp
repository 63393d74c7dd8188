// Parts of checkpoints from one agent to another: the end that sends and the one that gets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "net/staging/sealed_door.hpp"

namespace ddprun::net {

// Sends parts of checkpoints to other agents, by a door (net/staging/sealed_door.hpp).
//
// The pieces are those of copies (net/staging/sealed_door.hpp); one connection is for one question:
//   M known, step + 1     the parts of a step here, replicas too; step + 1 = 0: all own parts, once their
//   version
//                         is not `known` any more                             -> L bytes ..., E version
//   C step, again, name   a file; `again` 1: its hash was another one before  -> D bytes ..., E hash
// K, F and B are as there. Numbers have 8 bytes.

inline constexpr int k_most_shard_readers = 64;

// Source of what a server passes on; called by several threads.
class ShardSource {
 public:
  struct List {
    std::uint64_t version = 0;
    std::vector<checkpoint::Offer> offers;
    int attempt = -1;  // the latest that was begun here
  };
  virtual ~ShardSource() = default;
  virtual List own_parts(std::uint64_t known, Milliseconds limit) = 0;  // waits for another version
  virtual std::vector<checkpoint::Offer> offers_of(std::int64_t step) = 0;
  // Returns the path of a file of a part; empty: there is none.
  virtual std::string find(std::int64_t step, const std::string& name) = 0;
  // Returns its hash, waiting for it; "": not known yet, nullopt: the file is not to be used. `again`:
  // forgets what was known of it.
  virtual std::optional<std::string> hash(const std::string& path, bool again, Milliseconds limit) = 0;
};

// Serves as long as the process lives.
void serve_shards(int listener, const SealedSocket::Proof& proof, ShardSource& shards);

// Gets parts of checkpoints from another agent (net/staging/shard_exchange.hpp).

struct ShardClient {
  staging::Server server;
  std::string launch_key;
  std::function<bool()> stop;  // true: nobody needs it any more

  // These throw Error, with a sentence that names the host.

  using List = ShardSource::List;
  // Waits as long as the server shows signs of life, until its own parts are not of version `known` any more.
  List get_own_parts(std::uint64_t known) const { return get_list(known, 0); }
  std::vector<checkpoint::Offer> get_parts_of(std::int64_t step) const {
    return get_list(0, static_cast<std::uint64_t>(step) + 1).offers;
  }
  // Gets a file into `folder`, under its name once length and hash are right; from the server once more where
  // they are not. `paced` is called after each piece. Returns its hash.
  std::string get_file(std::int64_t step, const checkpoint::File& file, const std::string& folder,
                       const std::function<void(std::size_t bytes)>& paced) const;

 private:
  SealedSocket connect() const;
  SealedSocket::Piece receive(SealedSocket& socket) const;
  List get_list(std::uint64_t known, std::uint64_t step) const;
};

}  // namespace ddprun::net
