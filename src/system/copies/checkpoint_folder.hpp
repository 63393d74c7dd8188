// The folder in memory where an agent keeps checkpoints, and the files in it and in a flush folder.
//
// Its process locks it (flock) as long as it lives. A folder that is not locked was left by one that was
// killed: it is removed, unless it is marked to be kept; then the next process of the same job takes it over.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptors.hpp"

namespace ddprun::copies {

class CheckpointFolder {
 public:
  // `key` tells the job from others. The folder is `place`/ddprun-UID/checkpoints-KEY-AGENT.
  CheckpointFolder(const std::string& place, const std::string& key, int agent);
  const std::string& path() const { return path_; }

  // Makes it, or takes over one of the job that was kept here, and locks it; removes what killed processes
  // have left. With `keep` it is marked to be kept if this process is killed. Throws Error.
  void open(bool keep);
  // Removes it and what else the job has left here; keeps it for the next process of the job.
  void leave(bool keep);

 private:
  void take_over() const;
  void sweep(bool of_job) const;

  std::string place_, user_folder_, job_, path_;
  os::Fd folder_;
};

// State of a file by which a change of it is noticed.
struct FileStamp {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t changed = 0;  // nanoseconds
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
struct StampedFile {
  std::string name;
  FileStamp stamp;
};
// Returns the regular files of this user in a folder of this user that others cannot write to, hidden ones
// too, sorted.
std::vector<StampedFile> list_own_files(const std::string& folder);
// Opens such a file for reading, without following a link; empty: it is none, or another user could change
// it.
struct OpenedOwnFile {
  os::Fd file;
  FileStamp stamp;
};
OpenedOwnFile open_own_file(const std::string& path);
std::optional<std::string> read_own_file(const std::string& path, std::size_t limit);
// Reads from an offset into the buffer, which it cuts behind what was read. False: there is nothing.
bool read_part(const os::Fd& file, std::uint64_t offset, std::size_t most, std::string& buffer);

// Reads all of it in parts, in order. Returns its hash; nullopt if it was changed meanwhile or `take`
// returned false.
std::optional<std::string> read_hashed(const OpenedOwnFile& file,
                                       const std::function<bool(std::string_view part)>& take);

// Makes the folder of a step, 0700, if it is missing. 0 or errno.
int make_step_folder(const std::string& path);
// A new file of a folder, written under a temporary name. It is removed unless it is put in its place.
class NewFile {
 public:
  // Throws Error.
  NewFile(const std::string& folder, const std::string& name);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes);  // throws Error
  void finish(bool durable);  // renames it to its name, `durable`: once it is on the disk; throws Error

 private:
  std::string path_, temporary_;
  os::Fd file_;
};
// Writes the entries of a folder to the disk.
void sync_folder(const std::string& path);

}  // namespace ddprun::copies
