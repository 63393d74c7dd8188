#include "net/staging/shard_client.hpp"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "copies/checkpoint_folder.hpp"
#include "copies/stage_folder.hpp"
#include "staging/manifest.hpp"

namespace ddprun::net {

namespace {

constexpr std::size_t k_longest_offers = std::size_t{1} << 28U;

}  // namespace

SealedSocket ShardClient::connect() const {
  SealedSocket socket;
  const std::string problem = socket.connect(server, launch_key);
  if (!problem.empty()) throw Error(problem);
  return socket;
}

SealedSocket::Piece ShardClient::receive(SealedSocket& socket) const {
  while (true) {
    auto piece = socket.receive();
    if (stop()) throw Error("the job ends");
    if (!piece) throw Error("the connection to " + server.host + " has ended");
    if (piece->kind == StagePiece::busy) throw Error(server.host + " is busy");
    if (piece->kind == StagePiece::failed)
      throw Error(fmt::format("{}: {}", server.host, printable(piece->text)));
    if (piece->kind != StagePiece::keep_waiting) return std::move(*piece);
  }
}

ShardClient::List ShardClient::get_list(std::uint64_t known, std::uint64_t step) const {
  SealedSocket socket = connect();
  std::string asked, list;
  staging::put_number(asked, known);
  staging::put_number(asked, step);
  socket.send(StagePiece::list_wanted, asked);
  while (true) {
    const SealedSocket::Piece piece = receive(socket);
    if (piece.kind == StagePiece::end) {
      staging::Parts numbers(piece.text);
      const std::uint64_t version = numbers.number();
      return {version, checkpoint::decode_offers(list), static_cast<int>(numbers.number()) - 1};
    }
    list += piece.text;
    if (list.size() > k_longest_offers) throw Error(server.host + " has sent too long a list");
  }
}

std::string ShardClient::get_file(std::int64_t step, const checkpoint::File& file, const std::string& folder,
                                  const std::function<void(std::size_t bytes)>& paced) const {
  for (const bool again : {false, true}) {
    SealedSocket socket = connect();
    std::string asked, part;
    staging::put_number(asked, static_cast<std::uint64_t>(step));
    staging::put_number(asked, again ? 1 : 0);
    staging::put_text(asked, file.name);
    socket.send(StagePiece::contents_wanted, asked);
    copies::NewFile target(folder, file.name);
    copies::StageDigest digest;
    std::future<void> hashed;  // the part before, while the next one comes
    std::uint64_t bytes = 0;
    SealedSocket::Piece piece = receive(socket);
    for (; piece.kind == StagePiece::contents && bytes <= file.bytes; piece = receive(socket)) {
      if (hashed.valid()) hashed.get();
      part = std::move(piece.text);
      hashed = std::async(std::launch::async, [&] { digest.add(part); });
      bytes += part.size();
      target.write(part);
      paced(part.size());
    }
    if (hashed.valid()) hashed.get();
    const std::string found = digest.text();
    if (bytes != file.bytes || found != piece.text || (!file.blake2b.empty() && file.blake2b != found))
      continue;
    target.finish(false);
    return found;
  }
  throw Error(fmt::format("{} of step {} from {} does not match its hash", file.name, step, server.host));
}

}  // namespace ddprun::net
