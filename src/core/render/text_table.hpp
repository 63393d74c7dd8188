// Tables for people: rows with a name, a value and its origin, and cells in aligned columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::render {

// Rows of cells that may have several lines each, in columns as wide as what they hold.
class CellTable {
 public:
  using Cell = std::vector<std::string>;  // lines of a cell

  void row(std::vector<Cell> cells);
  // Adds a line that takes part in no column; empty: a blank line.
  void line(std::string text);

  // Renders with two blanks between columns, `indent` before the first; columns that are empty throughout are
  // left out.
  std::string text(std::size_t indent) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string line;
  };
  std::vector<Row> rows_;
};

// Breaks a list into lines of at most `width` characters, after commas; a longer piece has a line for itself.
CellTable::Cell break_list(const std::string& list, std::size_t width);

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
