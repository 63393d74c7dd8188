// Options for the workers' output: its files, the ranks on the console, and its look.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sourced.hpp"
#include "output/stream_choice.hpp"

namespace ddprun::output {

struct LogRotation {
  std::uint64_t bytes = 0;  // most bytes of a file; 0: it is never rotated
  int kept = 0;             // older files beside the one that is written
};

// Choice whether equal output of several ranks is shown once: of stderr alone, of both streams, or of none.
enum class Folding { automatic, on, off };

struct OutputOptions {
  // torchrun's
  StreamChoice redirects;  // -r: into a file only
  StreamChoice tee;        // -t: into a file and, labelled, on the console
  Sourced<std::string> log_dir;
  std::vector<int> local_ranks;  // --local-ranks-filter: shown on the console; empty: all
  std::vector<std::string> output_filters;
  std::vector<std::string> error_filters;
  Sourced<std::string> prefix_template;  // --log-line-prefix-template; empty: "[ROLE LOCAL_RANK]:"
  // ddprun's own
  Sourced<std::string> logs;                  // --logs: both streams of all ranks; empty: none
  std::optional<Sourced<std::string>> label;  // --label; empty: the default one
  RankRanges ranks;                           // --ranks: shown on the console
  Folding fold = Folding::automatic;
  bool gather = false;     // --gather: through the coordinator's output
  std::uint64_t rate = 0;  // --output-rate: bytes a second of a stream on the console; 0: all
  LogRotation rotation;
  bool timestamps = false;
  bool compress = false;  // --log-compress zstd
};

}  // namespace ddprun::output
