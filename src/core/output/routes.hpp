// Destinations of a worker's streams, from the options.
#pragma once

#include <string>

#include "base/ids.hpp"
#include "output/line_label.hpp"
#include "output/output_options.hpp"

namespace ddprun::output {

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
