#include "commands/check_words.hpp"

#include <nlohmann/json.hpp>

#include "check/record_text.hpp"

namespace ddprun::commands {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckWords, json, strict, deep, log_folder, exclude_file)

std::string render_check_words(const CheckWords& words) { return check::render_json_text(words); }
CheckWords parse_check_words(const std::string& text) { return check::parse_json_text<CheckWords>(text); }

}  // namespace ddprun::commands
