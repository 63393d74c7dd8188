#include "commands/check_words.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace ddprun::commands {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckWords, json, strict, deep, log_folder, exclude_file)

std::string render_check_words(const CheckWords& words) { return nlohmann::json(words).dump(); }

CheckWords parse_check_words(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<CheckWords>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("--check-node is for ddprun itself: ") + error.what(), "use ddprun --check");
  }
}

}  // namespace ddprun::commands
