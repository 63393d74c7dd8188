// Grammars that choose streams and ranks: -r, -t, --local-ranks-filter, --ranks and the line filters.
//
// Every parser throws UsageError for anything outside its grammar, with a sentence that begins with `origin`
// (the option or the variable the text came from) and a hint that shows the right form.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::output {

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

}  // namespace ddprun::output
