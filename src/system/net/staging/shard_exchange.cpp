#include "net/staging/shard_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "copies/checkpoint_folder.hpp"
#include "copies/stage_folder.hpp"
#include "staging/manifest.hpp"

namespace ddprun::net {

namespace {

bool send_list(SealedSocket& socket, const ShardSource::List& list) {
  const std::string offers = checkpoint::encode(list.offers);
  std::string_view rest = offers;
  while (!rest.empty()) {
    if (!socket.send(StagePiece::list, rest.substr(0, k_stage_part))) return false;
    rest.remove_prefix(std::min(rest.size(), k_stage_part));
  }
  std::string version;
  staging::put_number(version, list.version);
  staging::put_number(version, static_cast<std::uint64_t>(std::int64_t{list.attempt} + 1));
  return socket.send(StagePiece::end, version);
}

void answer_list(ShardSource& shards, staging::Parts& asked, SealedSocket& socket) {
  const std::uint64_t known = asked.number(), step = asked.number();
  if (step > 0) return void(send_list(socket, {0, shards.offers_of(static_cast<std::int64_t>(step) - 1)}));
  while (true) {
    const ShardSource::List list = shards.own_parts(known, k_stage_sign_of_life);
    if (list.version != known) return void(send_list(socket, list));
    if (!socket.send(StagePiece::keep_waiting)) return;
  }
}

// Waits for the hash of a file; nullopt: there is none, which the other one is told.
std::optional<std::string> wait_for_hash(ShardSource& shards, const std::string& path, bool again,
                                         SealedSocket& socket) {
  while (true) {
    const auto hash = shards.hash(path, std::exchange(again, false), k_stage_sign_of_life);
    if (!hash) return socket.send(StagePiece::failed, "the file has changed or is damaged"), std::nullopt;
    if (!hash->empty()) return hash;
    if (!socket.send(StagePiece::keep_waiting)) return std::nullopt;
  }
}

void answer_file(ShardSource& shards, staging::Parts& asked, SealedSocket& socket) {
  const auto step = static_cast<std::int64_t>(asked.number());
  const bool again = asked.number() != 0;
  const std::string path = shards.find(step, asked.text());
  const copies::OpenedOwnFile opened = copies::open_own_file(path);
  if (!opened.file) return void(socket.send(StagePiece::failed, "the file is not here"));
  if (again && !wait_for_hash(shards, path, true, socket)) return;
  std::string part;
  for (std::uint64_t at = 0; at < opened.stamp.bytes; at += part.size()) {
    if (!copies::read_part(opened.file, at, k_stage_part, part))
      return void(socket.send(StagePiece::failed, "the file has become shorter"));
    if (!socket.send(StagePiece::contents, part)) return;
  }
  if (const auto hash = wait_for_hash(shards, path, false, socket)) socket.send(StagePiece::end, *hash);
}

}  // namespace

void serve_shards(int listener, const SealedSocket::Proof& proof, ShardSource& shards) {
  serve_sealed(listener, proof, k_most_shard_readers, [&](SealedSocket& socket) {
    const auto asked = socket.receive();
    if (!asked) return;
    staging::Parts parts(asked->text);
    if (asked->kind == StagePiece::list_wanted) answer_list(shards, parts, socket);
    if (asked->kind == StagePiece::contents_wanted) answer_file(shards, parts, socket);
  });
}

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
