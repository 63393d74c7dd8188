// The parts of checkpoints in this agent's folder: which are complete and right, and room for more.
//
// A part counts once its manifest is there and its files have their lengths. Each file is hashed once, in the
// background; what was changed later, or does not match its hash, is not used: it is removed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/room.hpp"
#include "net/staging/shard_server.hpp"
#include "os/files/checkpoint_folder.hpp"

namespace ddprun::checkpoints {

using Notice = std::function<void(const std::string& what, const std::string& hint)>;
using Step = std::int64_t;

class LocalParts {
 public:
  // `limit`: bytes for all that is in the folder.
  LocalParts(std::string folder, std::uint64_t limit, Notice notice)
      : folder_(std::move(folder)), limit_(limit), notice_(std::move(notice)) {}
  std::string step_path(Step step, bool replica) const;

  // Looks at the folder. `ended`: no worker runs, so that a file without a manifest is whole.
  void look(bool ended = false);
  std::vector<checkpoint::Part> parts() const;
  // Waits until parts() has changed since that version; false where it has not within the limit.
  bool wait_for_change(std::uint64_t& version, Milliseconds limit);
  std::map<int, checkpoint::Manifest> parts_of(
      Step step) const;  // parts by rank, with the hashes that are known
  std::optional<checkpoint::Manifest> part(Step step, int rank) const;
  std::string find(Step step, const std::string& name) const;  // path of a file of a part; empty: none
  net::Shards shards();
  [[noreturn]] void hash_files();  // in a thread, or several
  void wait_until_hashed();

  // Removes what is newer than the step, or all without one, and what was left unfinished.
  void begin_attempt(int attempt, std::optional<Step> step, int world);
  int attempt() const;
  void keep_complete(const std::vector<Step>& steps);  // Order::complete
  std::vector<Step> complete() const;

  // Makes room for so many bytes, waiting for an order that says what may go. They count until they are
  // released. Returns why there is none; empty: there is.
  std::string reserve(const void* owner, std::uint64_t bytes, Milliseconds wait);
  void release(const void* owner);

  // Adds a replica whose files are there, and what is known of them; not if it is of an attempt before.
  using Stamps = std::map<std::string, os::FileStamp>;
  void add_replica(int attempt, const checkpoint::Offer& part, const Stamps& stamps);
  // Gives a worker a file of another agent's part: a second name of the replica. Throws Error.
  void hand_over(Step step, const std::string& name, const std::string& file);
  bool has_handed_over(Step step, const std::string& name) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Known {
    os::FileStamp stamp;
    std::string hash;      // hash of the file with that stamp; empty: not known yet
    std::string expected;  // the first one known; empty: none is
  };
  struct ReadManifest {
    os::FileStamp stamp;
    std::optional<checkpoint::Manifest> manifest;
  };
  using Place = std::tuple<Step, int, bool>;  // step, rank, replica
  // Result of a look.
  struct Seen {
    std::map<Place, checkpoint::Manifest> parts;
    std::map<std::string, Known> known;
    std::map<std::string, ReadManifest> manifests;
    checkpoint::StepSizes sizes;
    std::uint64_t complete = 0, other = 0;  // bytes
    std::set<std::uint64_t> inodes;
  };
  enum class State { missing, unchecked, right, damaged };

  void look_locked(bool ended = false);
  void look_at_step(Seen& seen, Step step, bool replica, bool ended);
  void write_lone_manifests(Step step, const std::vector<os::StampedFile>& files, bool ended) const;
  void read_manifest(Seen& seen, const std::string& folder, const os::StampedFile& file);
  State check_part(Seen& seen, const std::string& folder, checkpoint::Manifest& manifest,
                   const Stamps& files);
  State check_file(Known& known, const std::string& path, const os::FileStamp& stamp);
  void discard(Step step, int rank, bool replica, const checkpoint::Manifest& manifest, const Seen& seen);
  std::uint64_t used() const;
  void remove(const std::vector<Step>& steps, Lock& lock, bool wait);
  void tell_no_room(const std::string& why);
  void notice_once(const std::string& what, const std::string& hint = {});
  net::Shards::List own_parts(std::uint64_t known, Milliseconds limit);
  std::optional<std::string> hash(const std::string& path, bool again, Milliseconds limit);

  std::string folder_;
  std::uint64_t limit_;
  Notice notice_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, to_hash_;
  Seen seen_;
  std::vector<checkpoint::Part> parts_;
  std::uint64_t version_ = 1;
  std::deque<std::string> queue_;
  std::set<std::string> queued_;  // and those that are hashed now
  std::vector<Step> complete_;
  std::map<const void*, std::uint64_t> reserved_;
  std::uint64_t other_before_ = 0;  // Seen::other when the first of them was made
  std::uint64_t removing_ = 0;      // bytes
  int removals_ = 0, world_ = 0, attempt_ = -1;
  std::set<std::string> handed_over_, noticed_;
};

}  // namespace ddprun::checkpoints
