#include "net/staging/shard_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/files/stage_digest.hpp"
#include "staging/manifest.hpp"

namespace ddprun::net {

namespace {

constexpr std::size_t k_longest_offers = std::size_t{1} << 28U;

// Hashes a file while it is written, in a thread of its own.
class FollowingHash {
 public:
  explicit FollowingHash(const os::Fd& file) : file_(file), thread_([this] { run(); }) {}
  ~FollowingHash() { end(); }
  FollowingHash(const FollowingHash&) = delete;
  FollowingHash& operator=(const FollowingHash&) = delete;

  void note(std::uint64_t written) {
    {
      const std::scoped_lock lock(mutex_);
      written_ = written;
    }
    changed_.notify_one();
  }
  std::string finish() {
    end();
    return digest_.text();
  }

 private:
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    std::string part;
    for (std::uint64_t at = 0;; at += part.size()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || written_ > at; });
      const std::uint64_t written = written_;
      lock.unlock();
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(k_stage_part, written - at));
      if (most == 0 || !os::read_part(file_, at, most, part)) return;
      digest_.add(part);
    }
  }

  const os::Fd& file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t written_ = 0;
  bool ended_ = false;
  os::StageDigest digest_;
  std::thread thread_;
};

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

ShardClient::Got ShardClient::get_file(std::int64_t step, const checkpoint::File& file,
                                       const std::string& folder,
                                       const std::function<void(std::size_t bytes)>& paced) const {
  for (const bool again : {false, true}) {
    SealedSocket socket = connect();
    std::string asked;
    staging::put_number(asked, static_cast<std::uint64_t>(step));
    staging::put_number(asked, again ? 1 : 0);
    staging::put_text(asked, file.name);
    socket.send(StagePiece::contents_wanted, asked);
    os::NewFile target(folder, file.name);
    FollowingHash hash(target.file());
    std::uint64_t bytes = 0;
    SealedSocket::Piece piece = receive(socket);
    for (; piece.kind == StagePiece::contents; piece = receive(socket)) {
      bytes += piece.text.size();
      if (bytes > file.bytes) break;
      target.write(piece.text);
      hash.note(bytes);
      paced(piece.text.size());
    }
    const std::string found = hash.finish();
    const bool right =
        bytes == file.bytes && found == piece.text && (file.blake2b.empty() || file.blake2b == found);
    if (right) return {found, target.finish(false)};
  }
  throw Error(fmt::format("{} of step {} from {} does not match its hash", file.name, step, server.host));
}

}  // namespace ddprun::net
