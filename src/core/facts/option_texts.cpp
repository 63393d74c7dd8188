#include "facts/option_texts.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "facts/lined_json.hpp"
#include "facts/site_folders.hpp"

namespace ddprun::facts {

namespace {

constexpr std::size_t k_longest_text = 1000;
constexpr const char* k_config_hint =
    R"(write options as in {"max-restarts": 3, "bind": "near", "quiet": true}; man ddprun-formats describes the file)";

std::string text_of(const LinedJson& source, const LinedJson::Json& value, const std::string& name) {
  const int line = source.line_of(value);
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  if (!value.is_string()) source.fail(line, name + " must be text, a number, true or false");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > k_longest_text || printable(text, k_longest_text) != text) {
    source.fail(line, fmt::format("{} is longer than {} or has characters that cannot be printed", name,
                                  k_longest_text));
  }
  return text;
}

}  // namespace

std::vector<std::string> config_files(const Environment& environment) {
  std::vector<std::string> files = site_folders(environment);
  for (std::string& file : files) {
    file.erase(file.size() - std::string_view("sites.d").size());
    file += "config.json";
  }
  return files;
}

std::vector<OptionText> read_option_texts(const LinedJson& source, const LinedJson::Json& object,
                                          const std::string& file) {
  std::vector<OptionText> options;
  for (const auto& [key, value] : object.items()) {
    const std::string name = printable(key);
    options.push_back({key, text_of(source, value, name),
                       fmt::format("{} ({}, line {})", name, printable(file), source.line_of(value))});
  }
  return options;
}

std::vector<OptionText> parse_config(const std::string& text, const std::string& file) {
  const LinedJson source =
      read_lined_json(text, "the configuration " + printable(file), k_config_hint, k_config_limit);
  return read_option_texts(source, source.json, file);
}

}  // namespace ddprun::facts
