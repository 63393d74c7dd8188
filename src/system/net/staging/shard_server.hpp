// Sends parts of checkpoints to other agents, by a door (net/staging/sealed_door.hpp).
//
// The pieces are those of copies (net/staging/sealed_socket.hpp); one connection is for one question:
//   M known, step + 1     the parts of a step here, replicas too; step + 1 = 0: all own parts, once their
//   version
//                         is not `known` any more                             -> L bytes ..., E version
//   C step, again, name   a file; `again` 1: its hash was another one before  -> D bytes ..., E hash
// K, F and B are as there. Numbers have 8 bytes.
#pragma once

#include <functional>
#include <string>

#include "net/staging/sealed_door.hpp"
#include "os/files/checkpoint_folder.hpp"

namespace ddprun::net {

inline constexpr int k_most_shard_readers = 64;

// Source of what a server passes on; called by several threads.
struct Shards {
  struct List {
    std::uint64_t version = 0;
    std::string offers;
    int attempt = -1;  // the latest that was begun here
  };
  std::function<List(std::uint64_t known, Milliseconds limit)> own_parts;       // waits for another version
  std::function<std::string(std::int64_t step)> parts_of;                       // own ones and replicas
  std::function<std::string(std::int64_t step, const std::string& name)> find;  // path of a file; empty: none
  // Returns the hash of that file, waiting for it; "": not known yet, nullopt: the file is not to be used.
  // `again`: forgets what it knew of it.
  std::function<std::optional<std::string>(const std::string& path, bool again, Milliseconds limit)> hash;
};

// Serves as long as the process lives.
void serve_shards(int listener, const SealedSocket::Proof& proof, const Shards& shards);

}  // namespace ddprun::net
