#include "options/shell_words.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

namespace {

// Reader of one word of a command line.
class WordReader {
 public:
  // Reads a character; outside quotes a blank ends the word.
  void read(char c) {
    if (escaped_) {
      add(c);
      escaped_ = false;
    } else if (quote_ != '\0') {
      read_quoted(c);
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      begun_ = true;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      end_word();
    } else {
      add(c);
    }
  }
  void end_word() {
    if (begun_) words_.push_back(std::move(word_));
    word_.clear();
    begun_ = false;
  }
  bool is_open() const { return quote_ != '\0' || escaped_; }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  void add(char c) {
    word_ += c;
    begun_ = true;
  }
  void read_quoted(char c) {
    if (c == quote_) {
      quote_ = '\0';
    } else if (c == '\\' && quote_ == '"') {
      escaped_ = true;
    } else {
      word_ += c;
    }
  }

  std::vector<std::string> words_;
  std::string word_;
  char quote_ = '\0';
  bool escaped_ = false;
  bool begun_ = false;
};

}  // namespace

std::vector<std::string> split_shell_words(const std::string& text, const std::string& origin,
                                           const std::string& hint) {
  WordReader reader;
  for (const char c : text) reader.read(c);
  if (reader.is_open())
    throw UsageError(fmt::format("{} has an open quote: {}", origin, printable(text, 80)), hint);
  reader.end_word();
  std::vector<std::string> words = reader.take();
  if (words.empty() || words.front().empty()) throw UsageError(origin + " is empty", hint);
  return words;
}

}  // namespace ddprun::options
