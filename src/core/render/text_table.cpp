#include "render/text_table.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace ddprun::render {

namespace {

constexpr std::size_t k_value_indent = 2;
constexpr std::size_t k_longest = 2000;  // bytes of one cell

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !continues_character(byte); }));
}

// Returns the bytes of the first `width` characters.
std::size_t bytes_of(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if (!continues_character(text[bytes]) && width-- == 0) break;
  }
  return bytes;
}

// Wraps into lines of at most `width` characters, broken at blanks if there are any.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (width_of(text) > width) {
    const std::size_t room = bytes_of(text, width);
    const std::size_t blank = text.rfind(' ', room);
    const bool at_blank = blank != std::string_view::npos && blank > 0;
    lines.emplace_back(text.substr(0, at_blank ? blank : room));
    text.remove_prefix(at_blank ? blank + 1 : room);
  }
  lines.emplace_back(text);
  return lines;
}

std::string pad(std::string text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

void append(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

// Appends the lines: `first` stands before the first one, blanks of the same width before the others.
void append_wrapped(std::string& text, const std::string& first, std::string_view rest) {
  std::string before = first;
  for (const std::string& line : wrap(rest, TextTable::k_columns - width_of(first))) {
    append(text, before + line);
    before = std::string(width_of(first), ' ');
  }
}

}  // namespace

void TextTable::heading(std::string_view text, std::size_t name_width, std::size_t value_width) {
  if (!text_.empty()) text_ += "\n";
  append_wrapped(text_, "", printable(text));
  name_width_ = name_width;
  value_width_ = value_width;
}

void TextTable::row(std::string_view name, std::string_view value, std::string_view origin) {
  const std::string shown = printable(value, k_longest);
  const std::string from = printable(origin, k_longest);
  const std::size_t value_column = k_value_indent + name_width_ + 1;
  std::string first = std::string(k_value_indent, ' ') + printable(name, k_longest);
  if (width_of(first) >= value_column) {
    append_wrapped(text_, std::string(k_value_indent, ' '), std::string_view(first).substr(k_value_indent));
    first.clear();
  }
  first = pad(first, value_column);
  if (from.empty() || width_of(shown) > value_width_) {
    append_wrapped(text_, first, shown);
    if (!from.empty()) append_wrapped(text_, pad("", value_column) + "<- ", from);
    return;
  }
  append_wrapped(text_, first + pad(shown, value_width_ + 1), from);
}

void TextTable::line(std::string_view text) {
  append_wrapped(text_, std::string(k_value_indent, ' '), printable(text, k_longest));
}

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
