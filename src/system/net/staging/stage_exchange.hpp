// Copies of --stage from one agent to another: the end that sends and the one that gets.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "net/staging/sealed_door.hpp"
#include "staging/manifest.hpp"
#include "staging/tree.hpp"

namespace ddprun::net {

// Sends copies of --stage to other agents, which connect to a door (net/staging/sealed_door.hpp).

// Progress of one --stage on this host, as the threads that serve it to others see it.
class StagedItem {
 public:
  struct View {
    std::shared_ptr<const staging::Manifest> manifest;  // nullptr: not known yet
    std::shared_ptr<const std::string> list;            // the same, encoded
    std::string root, originals;                        // folders that the contents are read from
    std::uint64_t available = 0;                        // bytes of the contents
    std::string digest;                                 // digest of all of them; empty: not known yet
    std::string failure;                                // reason why this host passes nothing on
  };

  void begin(std::shared_ptr<const staging::Manifest> manifest, std::shared_ptr<const std::string> list);
  void read_at(std::string root, std::string originals);
  void advance(std::uint64_t available);
  void complete(std::string digest);
  void fail(std::string why);

  View view() const;
  // Waits until `enough` holds of the view, or for that time, and returns it. A failure is enough.
  template <class Enough>
  View wait(Milliseconds limit, const Enough& enough) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return !view_.failure.empty() || enough(view_); });
    return view_;
  }

 private:
  template <class Change>
  void change(const Change& change);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  View view_;
};

inline constexpr int k_most_served = 8;  // includes hosts whose parent is lost

// Reads parts of the contents: from an offset, at most so much. Throws Error. For one thread.
using ReadStaged = std::function<std::string(std::uint64_t offset, std::size_t most)>;
using OpenStaged = std::function<ReadStaged(const StagedItem::View& view)>;

// Serves as long as the process lives. `listener` does not block. `items` outlives it.
void serve_staged(int listener, const SealedSocket::Proof& proof, std::vector<StagedItem>& items,
                  OpenStaged open);

// Gets a copy for --stage from the hosts that have it.
// It asks the parent in the tree, and if that one is lost, slow, or has none, those above it.

class StageClient {
 public:
  struct Settings {
    std::vector<staging::Server> sources;  // the parent first, the root last
    std::string launch_key;
    std::function<void(const std::string& what)> tell;  // a detail: it turns to another host
    std::function<bool()> stop;                         // true when no process needs the copy any more
  };
  explicit StageClient(Settings settings)
      : settings_(std::move(settings)), refused_(settings_.sources.size()) {}

  // Gets the list. Like get_contents() it waits as long as a host that could have it shows signs of life.
  // nullopt: why() says why.
  std::optional<std::string> get_list(std::size_t item);
  // Gets the contents from `offset` on; `take` is called in order. Returns the digest that the source has of
  // all contents.
  std::optional<std::string> get_contents(std::size_t item, std::uint64_t offset,
                                          const std::function<void(std::string_view)>& take);
  // Notes that the last source gave contents that do not fit their digest.
  void distrust();
  const std::string& why() const { return why_; }
  const std::string& host() const { return settings_.sources[current_].host; }  // source of the copy
  // Reports whether the root has none, and says there why.
  bool is_refused() const { return !refused_.empty() && refused_.back(); }

 private:
  enum class Ended { done, lost, refused, busy, slow, stopped };
  template <class Talk>
  bool ask_each(const Talk& talk);
  bool move_on();
  Ended connect(SealedSocket& socket);
  Ended end_with(const std::optional<SealedSocket::Piece>& piece);
  Ended read_list(SealedSocket& socket, std::size_t item, std::string& list);

  Settings settings_;
  std::vector<bool> refused_;  // sources that have none
  std::size_t current_ = 0;
  bool progressed_ = false;
  std::string why_ = "no other host has it";
};

}  // namespace ddprun::net
