// The parts of checkpoints in this agent's folder: which are complete and right, and room for more.
//
// A part counts once its manifest is there and its files have their lengths. Each file is hashed once, in the
// background; what was changed later, or does not match its hash, is not used: it is removed.
#pragma once

#include <atomic>
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

#include "checkpoint/register.hpp"
#include "copies/checkpoint_folder.hpp"
#include "net/staging/shard_exchange.hpp"

namespace ddprun::checkpoints {

using Notice = std::function<void(const std::string& what, const std::string& hint)>;
using Step = std::int64_t;
using checkpoint::File;
using checkpoint::Manifest;
using checkpoint::Offer;

class LocalParts : public net::ShardSource {
 public:
  // `limit`: bytes for all that is in the folder.
  LocalParts(std::string folder, std::uint64_t limit, Notice notice)
      : folder_(std::move(folder)), limit_(limit), notice_(std::move(notice)) {}
  std::string step_path(Step step, bool replica) const;

  // Looks at the folder. `ended`: no worker runs, so that a file without a manifest is whole.
  void look(bool ended = false);
  std::vector<checkpoint::Part> parts() const;
  std::map<int, Manifest> parts_of(Step step) const;  // ranks and their parts, with the hashes that are known
  [[noreturn]] void hash_files();                     // in a thread, or several
  void wait_until_hashed();
  List own_parts(std::uint64_t known, Milliseconds limit) override;
  std::vector<Offer> offers_of(Step step) override;
  std::string find(Step step, const std::string& name) override;
  std::optional<std::string> hash(const std::string& path, bool again, Milliseconds limit) override;

  // Removes what is newer than the step, or all without one, and what was left unfinished.
  void begin_attempt(int attempt, std::optional<Step> step, int world);
  void keep_complete(const std::vector<Step>& steps);  // Order::complete

  // Makes room for so many bytes, waiting for an order that says what may go. They count until they are
  // released. Returns why there is none; empty: there is.
  std::string reserve(const void* owner, std::uint64_t bytes);
  void release(const void* owner);

  // Returns the parts to copy of those that the neighbour has; none if it has not begun this attempt.
  std::vector<Offer> missing(const List& neighbour) const;
  int attempt() const { return attempt_; }
  // Adds a replica whose files are all there; not if it was copied in an attempt before.
  void add_replica(int attempt, const Offer& part);
  // Gives a worker a file of another agent's part: a second name of the replica, also of one that lacks other
  // files of its part. Throws Error.
  void hand_over(Step step, const std::string& name, const std::string& file);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Known {
    copies::FileStamp stamp;
    std::string hash;      // hash of the file with that stamp; empty: not known yet
    std::string expected;  // the first one known; empty: none is
    bool damaged() const { return !hash.empty() && hash != expected; }
  };
  struct ReadManifest {
    copies::FileStamp stamp;
    std::optional<Manifest> manifest;
  };
  using Place = std::tuple<Step, int, bool>;  // step, rank, replica
  // Result of a look.
  struct Seen {
    std::map<Place, Manifest> parts;
    std::map<std::string, Known> known;
    std::map<std::string, ReadManifest> manifests;
    checkpoint::StepSizes sizes;
    std::uint64_t complete = 0, other = 0;  // bytes
    std::set<std::uint64_t> inodes;
  };
  enum class State { missing, damaged, unchecked, right };

  void look_locked(bool ended = false);
  void look_at_step(Seen& seen, Step step, bool replica, bool ended);
  bool write_lone_manifests(const std::string& folder, const std::vector<copies::StampedFile>& files,
                            bool ended) const;
  const std::optional<Manifest>& read_manifest(Seen& seen, const std::string& folder,
                                               const copies::StampedFile& file);
  State check_part(Seen& seen, const std::string& folder, Manifest& manifest,
                   const std::vector<copies::StampedFile>& files);
  void discard(Step step, int rank, bool replica, const Manifest& manifest, const Seen& seen);
  bool is_handed_over(const std::string& path) const;
  std::uint64_t used() const;
  void remove(const std::vector<Step>& steps, Lock& lock, bool wait);
  void tell_no_room(const std::string& why);
  void notice_once(const std::string& mark, const std::string& what, const std::string& hint = {});

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
  int removals_ = 0, world_ = 0;
  std::atomic<int> attempt_ = -1;
  std::set<std::string> handed_over_, noticed_;
};

}  // namespace ddprun::checkpoints
