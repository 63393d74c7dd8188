// The last lines of a stream, as a terminal would have left them: for failure reports.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::output {

class LineTail {
 public:
  static constexpr std::size_t k_lines = 20;
  static constexpr std::size_t k_line_length = 1024;  // bytes; the rest of a longer line is dropped

  explicit LineTail(std::size_t lines = k_lines) : limit_(lines) {}

  void add(std::string_view text);
  // Returns the lines, oldest first, the unfinished last one too; without line ends. Text after a '\r'
  // replaces what was before it on its line, so of a progress bar only the last state stays.
  std::vector<std::string> lines() const;

 private:
  void add_within_line(std::string_view text);
  void end_line();

  std::size_t limit_;
  std::deque<std::string> ended_;
  std::string current_;
  bool returned_ = false;  // a '\r' came last: the next text starts the line anew
};

}  // namespace ddprun::output
