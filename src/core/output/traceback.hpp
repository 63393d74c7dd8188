// Tracebacks of Python in what is written to standard error.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::output {

// Returns where the first line that begins a traceback starts, torch's "[rank3]: " in front of it or not;
// npos: none does.
std::size_t find_traceback(std::string_view text);

// Reports whether this is "Traceback ..." and lines of its calls, which are indented: its exception is still
// to come.
bool is_unfinished_traceback(std::string_view text, GlobalRank rank);

// Separation of the tracebacks in what the ranks of a host write together, in whole lines. A traceback ends
// before a line of ddprun ("ddprun: ...", "[1-3] the same ..."), before a line with the mark of another rank,
// or none, and before another traceback that is not chained to it by an empty line.
class TracebackSplitter {
 public:
  struct Part {
    std::string_view text;
    bool begins = false;        // it is no continuation of the text before
    std::optional<int> rank{};  // rank of its mark
  };

  // Returns the text in parts, of which each is within a traceback or outside of all.
  std::vector<Part> split(std::string_view text);

 private:
  bool ends_before(std::string_view line) const;

  bool inside_ = false;
  bool at_start_ = true;  // the next text begins a line
  bool after_empty_ = false;
  std::optional<int> rank_;
};

}  // namespace ddprun::output
