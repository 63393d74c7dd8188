// Folders of copies for --stage, shared by a user's processes, with locks for filling, use and removal.
//
// A copy's folder is locked (flock) by each process that works with it: exclusively while it is filled or
// removed, shared while it is used. The kernel unlocks what a killed process held. So the last user removes
// it, and a folder that none could remove is free for the next ddprun to remove.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "os/descriptors.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::copies {

// The hash (BLAKE2b, 256 bits) by which copies of --stage are known and checked.
class StageDigest {
 public:
  StageDigest();
  StageDigest(const StageDigest&) = delete;
  StageDigest& operator=(const StageDigest&) = delete;
  ~StageDigest();

  void add(std::string_view bytes);
  std::string text();  // 64 hexadecimal digits, of all that was added; once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class StageFolder {
 public:
  explicit StageFolder(std::string path) : path_(std::move(path)) {}

  enum class Taken {
    alone,  // locked alone, to be filled, or checked if it is complete
    used,   // complete, and others use it too
    busy,   // locked by another process alone
  };
  // Makes it where it is missing. Throws Error.
  Taken take();
  // Marks the copy complete: others may use it from now on. False: another process has removed it meanwhile.
  bool share();
  // Ours alone: removes what is in it.
  void empty() const;
  void mark_complete(std::string_view text) const;  // throws Error
  std::optional<std::string> completed() const;     // the text
  // Leaves the folder, which is removed if no other process uses it, unless it is kept: for other jobs, until
  // room is needed.
  void leave(bool keep);

  const std::string& path() const { return path_; }
  std::string copy(const std::string& name) const { return path_ + "/" + name; }
  std::string originals() const { return path_ + "/.originals"; }

 private:
  bool is_current() const;

  std::string path_;
  os::Fd folder_;
};

// Makes the user's folder `own` at a place if it is missing. Returns facts about the place.
staging::PlaceFacts look_at_place(const std::string& place,
                                  const std::string& own = staging::user_folder(::geteuid()));

// Removes what nobody uses any more: what is not kept, and kept copies of `source` under another identity
// than that of `copy`; with `all_kept` the other kept ones too, except `copy`.
void sweep_stage_folders(const std::string& user_folder, const std::string& copy, bool all_kept);

}  // namespace ddprun::copies
