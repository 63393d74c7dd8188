#include "output/line_tail.hpp"

#include <algorithm>

namespace ddprun::output {

void LineTail::add(std::string_view text) {
  // A flood matters only by its end: skip all but the last lines before looking at every byte.
  std::size_t start = text.size();
  for (std::size_t ends = 0; start > 0; --start) {
    if (text[start - 1] == '\n' && ++ends > limit_) break;
  }
  if (start > 0) {
    end_line();
    text.remove_prefix(start);
  }
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    add_within_line(text.substr(0, length));
    if (length == text.size()) return;
    end_line();
    text.remove_prefix(length + 1);
  }
}

void LineTail::add_within_line(std::string_view text) {
  while (!text.empty()) {
    if (text.front() == '\r') {
      returned_ = true;
      text.remove_prefix(1);
      continue;
    }
    if (returned_) current_.clear();
    returned_ = false;
    const std::size_t length = std::min(text.find('\r'), text.size());
    current_ += text.substr(0, std::min(length, k_line_length - current_.size()));
    text.remove_prefix(length);
  }
}

void LineTail::end_line() {
  ended_.push_back(std::move(current_));
  if (ended_.size() > limit_) ended_.pop_front();
  current_.clear();
  returned_ = false;
}

std::vector<std::string> LineTail::lines() const {
  std::vector<std::string> result(ended_.begin(), ended_.end());
  if (!current_.empty()) result.push_back(current_);
  if (result.size() > limit_) result.erase(result.begin());
  return result;
}

}  // namespace ddprun::output
