// Gets parts of checkpoints from another agent (net/staging/shard_server.hpp).
#pragma once

#include <functional>
#include <string>

#include "net/staging/shard_server.hpp"

namespace ddprun::net {

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
