#include "command_line/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/read_file.hpp"

namespace ddprun::command_line {

namespace {

// These print something and end, or are about a single run: in a file they would do so in place of every run.
bool belongs_on_command_line(const OptionEntry& option) {
  static const std::vector<std::string_view> k_single{
      "job",     "capture", "snapshot", "dry-run", "print-config", "status", "stacks",
      "restart", "drain",   "profile",  "watch",   "timeline",     "output"};
  return option.group == OptionGroup::about || std::ranges::find(k_single, option.name) != k_single.end();
}

// Reports whether the file is missing, which is fine; a folder on the way that may not be entered is not,
// since it may hold a file.
bool is_missing(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  return status.type() == std::filesystem::file_type::not_found;
}

}  // namespace

std::string own_variable_of(const OptionEntry& option) {
  const std::string_view name = option.name;
  if (belongs_on_command_line(option) || name == "hosts" || name == "node-rank") return "";
  std::string variable = "DDPRUN_" + to_upper(name);
  std::ranges::replace(variable, '-', '_');
  return variable;
}

void refuse_query(const OptionEntry& option, const Sourced<std::string>& given) {
  if (option.name != std::string_view("check")) return;
  if (given.value == "auto" || !options::parse_check(given.value, given.origin).wanted) return;
  throw UsageError(fmt::format("{} cannot be '{}', which would check in place of every run", given.origin,
                               printable(given.value)),
                   "give auto, which checks before each run, or give --check on the command line");
}

std::optional<std::string> configured_value(const OptionEntry& option, const facts::OptionText& text) {
  const std::vector<std::string> words = split_words(option.words);
  const bool on = text.text == "true";
  const bool off = text.text == "false";
  if (option.value == OptionValue::none) {
    const auto number = parse_integer(text.text);
    if (!on && !off && !number)
      throw UsageError(fmt::format("{} is neither true nor false: '{}'", text.origin, printable(text.text)),
                       "write true or false, without quotes");
    return off || number == 0 ? std::nullopt : std::optional<std::string>("1");
  }
  if (!on && !off) return text.text;
  if (option.value == OptionValue::optional) {
    if (on) return words.empty() ? "" : words.front();
    return std::ranges::find(words, "off") != words.end() ? std::optional<std::string>("off") : std::nullopt;
  }
  throw UsageError(
      fmt::format("{} needs a value and cannot be {}", text.origin, text.text),
      on ? fmt::format("write the value that --{}={} has on the command line", option.name, option.metavar)
         : "leave it out for the default");
}

const OptionEntry& find_configured(const facts::OptionText& text) {
  const auto& table = option_table();
  const auto option =
      std::ranges::find_if(table, [&](const OptionEntry& each) { return each.name == text.name; });
  if (option == table.end()) {
    std::vector<std::string> names;
    for (const OptionEntry& each : table) names.emplace_back(each.name);
    const auto match = closest_match(text.name, names);
    throw UsageError("unknown option " + text.origin,
                     match ? fmt::format("did you mean {}?", *match) : "ddprun --help-all lists the options");
  }
  if (belongs_on_command_line(*option)) {
    throw UsageError(fmt::format("{} cannot be set in a file", text.origin),
                     fmt::format("give --{} on the command line", option->name));
  }
  return *option;
}

OptionLayers read_configuration(const facts::Snapshot& snapshot) {
  OptionLayers layers;
  for (const std::string& file : facts::config_files(snapshot.environment)) {
    if (is_missing(file)) continue;
    layers.push_back(facts::parse_config(os::read_file(file, facts::k_config_limit), file));
  }
  return layers;
}

std::string render_config(const options::Options& options, const std::vector<std::string>& files) {
  std::string text;
  for (const OptionEntry& option : option_table()) {
    const auto given = options.given.find(option.name);
    if (given == options.given.end() || option.name == std::string_view("print-config")) continue;
    text += fmt::format("{:<20} {:<20} {}\n", option.name, printable(given->second.value),
                        printable(given->second.origin));
  }
  if (text.empty()) text = "no option is set\n";
  text += "\nConfiguration files, highest precedence first:\n";
  for (const std::string& file : files) {
    text += fmt::format("  {}{}\n", printable(file), is_missing(file) ? " (not found)" : "");
  }
  return text + "Options that are not listed have their defaults (ddprun --help-all).\n";
}

}  // namespace ddprun::command_line
