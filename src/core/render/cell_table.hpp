// Rows of cells that may have several lines each, in columns as wide as what they hold.
#pragma once

#include <string>
#include <vector>

namespace ddprun::render {

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

}  // namespace ddprun::render
