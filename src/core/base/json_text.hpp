// JSON as text and back: the library's reader and writer, which are compiled in one file only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ddprun {

// Reads JSON. Returns a discarded value (is_discarded(), no object and no array) if the text is not JSON or
// has a number that is too large; throws nothing.
nlohmann::json read_json_text(std::string_view text);
nlohmann::ordered_json read_ordered_json_text(std::string_view text);

// Writes JSON as text; bytes that are not UTF-8 are replaced by U+FFFD. Without an indent it is one line; no
// line end in either case.
std::string write_json_text(const nlohmann::json& json, int indent = -1);
std::string write_json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace ddprun
