// How the holders of a node's parts look in its picture.
// The colours are the light ones of Paul Tol's "Colour schemes": distinct for all kinds of colour vision, and
// black text is readable on each. There are eight; further workers have them with a pattern, and every square
// has its symbol.
#pragma once

#include <string>

#include "render/node_layout.hpp"
#include "render/svg_writer.hpp"

namespace ddprun::render {

inline constexpr int k_square = 16;

std::string svg_head();  // the style sheet and the patterns
void draw_area(SvgWriter& svg, const Frame& frame, const CpuHolder& holder);
// With its symbol, or its number.
void draw_square(SvgWriter& svg, int x, int y, const CpuHolder& holder, bool numbers);
std::string colour_of(int local_rank);

}  // namespace ddprun::render
