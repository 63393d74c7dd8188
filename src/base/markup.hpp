// Text inside SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// Printable, cut after `longest` bytes, and safe as text and in an attribute between double quotes.
std::string escape_markup(std::string_view text, std::size_t longest = 400);

}  // namespace ddprun
