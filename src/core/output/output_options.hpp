// Options for the workers' output: its files, the ranks and streams on the console, and its look.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/sourced.hpp"

namespace ddprun::output {

// Grammars that choose streams and ranks: -r, -t, --local-ranks-filter, --ranks and the line filters.
//
// Every parser throws UsageError for anything outside its grammar, with a sentence that begins with `origin`
// (the option or the variable the text came from) and a hint that shows the right form.
enum class Stream { output, error };  // a worker's stdout and stderr

// torchrun's redirect and tee grammar: "3" for all ranks or "0:1,12:3"; ranks may have several digits, which
// torchrun's own may not.
struct StreamChoice {
  int all = 0;  // 0 none, 1 stdout, 2 stderr, 3 both
  std::map<int, int> by_local_rank;
  bool nothing() const;  // no rank has a stream to redirect
  bool has(LocalRank rank, Stream stream) const;
};
StreamChoice parse_stream_choice(const std::string& text, const std::string& origin);

// Parses "0,1,12": local ranks, ascending and each once.
std::vector<int> parse_rank_list(const std::string& text, const std::string& origin);

// "0,8-15" by global rank, or "none".
struct RankRanges {
  bool all = true;
  std::vector<std::pair<int, int>> ranges;  // first and last
  bool has(GlobalRank rank) const;
};
RankRanges parse_rank_ranges(const std::string& text, const std::string& origin);

// Parses "apple,orange": a line has to contain one of them; ",," is a comma within one. Empty: none.
std::vector<std::string> parse_line_filters(const std::string& text);

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
