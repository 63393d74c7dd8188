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

// torchrun's --log-dir /dev/null: no files, whatever else is asked for.
bool discards_files(const OutputOptions& options);
// Reports whether some worker's stream goes to a file, or a folder for files was named.
bool wants_files(const OutputOptions& options);
// torchrun's folders have a place for the workers' error files.
bool keeps_error_files(const OutputOptions& options);
// Not plain bytes from the worker into its file: rotated, with times, compressed.
bool writes_for_workers(const OutputOptions& options);

StreamRoute route_stream(const OutputOptions& options, LocalRank local_rank, GlobalRank rank, Stream stream);
// `hosts`: of the world. Throws UsageError for a macro that is unknown.
LineLabel label_of(const OutputOptions& options, const StreamRoute& route, const LabelFacts& facts, int hosts,
                   bool colour);
// The lines that are copied to the filtered file of the stream; empty: none.
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
