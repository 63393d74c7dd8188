// Sends copies of --stage to other agents, which connect to a door (net/staging/sealed_door.hpp).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "net/staging/sealed_socket.hpp"
#include "staging/manifest.hpp"

namespace ddprun::net {

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

}  // namespace ddprun::net
