// The folder that all nodes share and to which checkpoints are flushed (--checkpoint-flush).
// FOLDER/.step-N-JOB-NUMBER.partial is filled by many agents; one of them renames it to FOLDER/step-N
// once it is whole, and removes those older than the newest two. JOB is a hash: two jobs with one
// folder write no parts into one step. NUMBER is Order::flush_number: what an agent that is cut off writes
// is of another history. A file system that hangs holds up whoever calls this.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/local_parts.hpp"

namespace ddprun::checkpoints {

class FlushFolder {
 public:
  FlushFolder(std::string path, const std::string& key);

  struct Flushing {
    Step step = 0;
    int number = 0;  // Order::flush_number
  };
  std::optional<std::pair<Step, int>> newest() const;  // complete step, and its world
  // The parts of a complete step, by rank. Only what this user has written and no other can change.
  std::map<int, Manifest> parts_of(Step step) const;
  // These throw Error.
  // Writes a rank's part, its manifest last, with hashes.
  void write(const Flushing& flushing, int rank, int world, LocalParts& parts) const;
  void publish(const Flushing& flushing) const;
  // Copies a file of a complete step into a folder. Returns its hash.
  std::string copy(Step step, const File& file, const std::string& folder) const;

 private:
  std::string partial_folder(const Flushing& flushing) const;
  void remove_others() const;

  std::string path_, job_;
};

}  // namespace ddprun::checkpoints
