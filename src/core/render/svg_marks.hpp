// The few elements of SVG 1.1 that a picture of a node needs, and how the holders of its parts look in it.
// The colours are the light ones of Paul Tol's "Colour schemes": distinct for all kinds of colour vision, and
// black text is readable on each. There are eight; further workers have them with a pattern, and every square
// has its symbol.
#pragma once

#include <string>
#include <string_view>

#include "render/node_layout.hpp"

namespace ddprun::render {

// Rectangle in the units of the drawing: pixels, unless it is shown larger or smaller.
struct Frame {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

class SvgWriter {
 public:
  // Draws a rectangle. `css` is a class of the style sheet, `fill` a colour or url(#pattern); empty: as the
  // class says.
  void rectangle(const Frame& frame, std::string_view css, std::string_view fill = {});
  void line(int from_x, int from_y, int to_x, int to_y, std::string_view css, std::string_view colour);
  void text(int x, int y, std::string_view css, std::string_view text);
  // Opens and closes a group; marks in it have a title, which browsers show under the pointer.
  void open_group(std::string_view title);
  void close_group();

  // Returns a document of that size. `head`: style and definitions, as elements.
  std::string document(int width, int height, std::string_view title, std::string_view head) const;

 private:
  std::string body_;
};

inline constexpr int k_square = 16;

std::string svg_head();  // the style sheet and the patterns
void draw_area(SvgWriter& svg, const Frame& frame, const CpuHolder& holder);
// Draws a square with its symbol, or its number.
void draw_square(SvgWriter& svg, int x, int y, const CpuHolder& holder, bool numbers);
std::string colour_of(int local_rank);

}  // namespace ddprun::render
