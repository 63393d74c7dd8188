// Options for files on the nodes: paths that are copied before the start (--stage), checkpoints in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

// Options for checkpoints that are kept in the nodes' memory (--checkpoint-memory).

inline constexpr Milliseconds k_shortest_flush_pause{1'000};
inline constexpr const char* k_checkpoint_folder = "/dev/shm";

struct CheckpointOptions {
  std::optional<Sourced<std::uint64_t>> memory;  // bytes on a node; nullopt: no checkpoints are kept
  std::string folder = k_checkpoint_folder;      // --checkpoint-folder: on each node
  std::uint64_t rate = 0;                        // --checkpoint-rate: bytes a second of copying; 0: no limit
  std::string flush;                        // --checkpoint-flush: a folder that all nodes share; empty: none
  std::optional<Milliseconds> flush_every;  // nullopt: at the end of the job only
  bool keep = false;                        // --checkpoint-keep: memory stays for a requeued job
};

struct StageOptions {
  std::vector<std::string> paths;  // paths as given, in their order
  std::string to;                  // --stage-to: a folder of each host; empty: TMPDIR, else /dev/shm
  bool keep = false;               // --stage-keep: for the next job
};

}  // namespace ddprun::options
