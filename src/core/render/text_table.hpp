// Aligned text for people: sections of rows with a name, a value and where the value came from.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::render {

class TextTable {
 public:
  static constexpr std::size_t k_columns = 100;  // no line is wider

  // Starts a section; its rows have these widths.
  void heading(std::string_view text, std::size_t name_width = 13, std::size_t value_width = 48);
  // Adds a row. A value that is too wide takes the line for itself, and its origin the next one. Text is made
  // printable and cut if it is endless.
  void row(std::string_view name, std::string_view value, std::string_view origin = {});
  // Adds a sentence, wrapped and indented.
  void line(std::string_view text);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t name_width_ = 0;
  std::size_t value_width_ = 0;
};

}  // namespace ddprun::render
