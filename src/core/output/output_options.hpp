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
#include "output/line_label.hpp"

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

// Destinations of a worker's streams, from the options.

struct StreamRoute {
  bool file = false;
  bool console = true;
  bool teed = false;  // torchrun's: its lines have the prefix, and those that match go to the filtered file
  friend bool operator==(const StreamRoute&, const StreamRoute&) = default;
};

// Reports whether torchrun's --log-dir is /dev/null: no files, whatever else is asked for.
bool discards_files(const OutputOptions& options);
// Reports whether some worker's stream goes to a file, or a folder for files was named.
bool wants_files(const OutputOptions& options);
// Reports whether error files are kept: torchrun's folders have a place for them.
bool keeps_error_files(const OutputOptions& options);
// Reports whether ddprun writes files for workers: rotated, with times, or compressed, not plain bytes from
// the worker.
bool writes_for_workers(const OutputOptions& options);

StreamRoute route_stream(const OutputOptions& options, LocalRank local_rank, GlobalRank rank, Stream stream);
// Returns the label of a route. `hosts`: number in the world. Throws UsageError for a macro that is unknown.
LineLabel label_of(const OutputOptions& options, const StreamRoute& route, const LabelFacts& facts, int hosts,
                   bool colour);
// Returns the filters whose lines are copied to the filtered file of the stream; empty: none.
const std::vector<std::string>& filters_of(const OutputOptions& options, Stream stream);

// The matching lines of a stream, labelled, whole.
class LineFilter {
 public:
  LineFilter(std::vector<std::string> needles, std::string label)
      : needles_(std::move(needles)), label_(std::move(label)) {}
  std::string add(std::string_view text);
  std::string end();  // the last line, if it has no end

 private:
  bool matches(std::string_view line) const;

  std::vector<std::string> needles_;
  std::string label_;
  std::string held_;
};

}  // namespace ddprun::output
