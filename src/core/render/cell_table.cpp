#include "render/cell_table.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::render {

namespace {

std::size_t height_of(const std::vector<CellTable::Cell>& cells) {
  std::size_t height = 0;
  for (const CellTable::Cell& cell : cells) height = std::max(height, cell.size());
  return height;
}

std::string cell_line(const std::vector<CellTable::Cell>& cells, std::size_t line, std::size_t indent,
                      const std::vector<std::size_t>& widths) {
  std::string text(indent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    const std::string piece = line < cells[i].size() ? cells[i][line] : std::string();
    text += piece + std::string(widths[i] - piece.size() + 2, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

void CellTable::row(std::vector<Cell> cells) { rows_.push_back({std::move(cells), {}}); }

void CellTable::line(std::string text) { rows_.push_back({{}, std::move(text)}); }

std::string CellTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(std::max(widths.size(), row.cells.size()));
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      for (const std::string& line : row.cells[i]) widths[i] = std::max(widths[i], line.size());
    }
  }
  std::string text;
  for (const Row& row : rows_) {
    if (row.cells.empty()) text += row.line + "\n";
    for (std::size_t line = 0; line < height_of(row.cells); ++line)
      text += cell_line(row.cells, line, indent, widths);
  }
  return text;
}

CellTable::Cell break_list(const std::string& list, std::size_t width) {
  CellTable::Cell lines(1);
  for (const std::string& piece : split(list, ',')) {
    const std::size_t needed = lines.back().size() + piece.size() + 1;  // and a comma behind it
    if (!lines.back().empty() && needed > width) lines.emplace_back();
    lines.back() += piece + ",";
  }
  lines.back().pop_back();
  return lines;
}

}  // namespace ddprun::render
