#include "command_line/lower_places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "os/read_file.hpp"
#include "site/expand_value.hpp"

namespace ddprun::command_line {

namespace {

bool flag_is_on(const Sourced<std::string>& given) {
  const auto number = parse_integer(trim(given.value));
  if (!number) {
    throw UsageError(fmt::format("{} is not a number: '{}'", given.origin, printable(given.value)),
                     "set it to 1 for on or 0 for off, or unset it");
  }
  return *number != 0;
}

// Options that contradict each other: the one from the source that counts more wins.
constexpr std::array<std::array<std::string_view, 2>, 8> k_rivals{{{"verbose", "quiet"},
                                                                   {"gpus-per-worker", "workers-per-gpu"},
                                                                   {"use-env", "no-use-env"},
                                                                   {"hosts", "hostfile"},
                                                                   {"hosts", "node-rank"},
                                                                   {"hostfile", "node-rank"},
                                                                   {"bind", "numa-binding"},
                                                                   {"logs", "log-dir"}}};

bool is_settled(const options::GivenOptions& above, std::string_view name) {
  const auto given = [&](std::string_view other) { return above.contains(std::string(other)); };
  return given(name) || std::ranges::any_of(k_rivals, [&](const auto& pair) {
           return (pair[0] == name && given(pair[1])) || (pair[1] == name && given(pair[0]));
         });
}

// Applies a value from a lower place; nullopt: it is off here, and not asked for further down.
void apply_below(Draft& draft, const OptionEntry& option, const std::string& origin,
                 const std::optional<std::string>& text) {
  if (!text) {
    draft.given[option.name] = {"0", origin};
    return;
  }
  refuse_query(option, {*text, origin});
  apply_option(draft, option, {*text, origin});
}

// The text of a variable as the command line would have it; an empty one is an option without its value.
std::optional<std::string> exported_value(const OptionEntry& option, const Sourced<std::string>& given) {
  if (option.value == OptionValue::none) return flag_is_on(given) ? std::optional(given.value) : std::nullopt;
  if (option.value == OptionValue::required || !given.value.empty()) return given.value;
  const std::vector<std::string> words = split_words(option.words);
  return words.empty() ? "" : words.front();
}

// The path of a file option, with the variables in it; nothing, and a warning, where one is not set.
std::optional<std::string> expand_path(Draft& draft, const facts::Environment& environment,
                                       const std::string& origin, const std::string& path) {
  site::ExpandedValue expanded = site::expand_value(path, environment);
  if (expanded.missing.empty()) return std::move(expanded.text);
  draft.warnings.push_back(
      {fmt::format("{} is left out: {} is not set, as {} needs it", origin, expanded.missing,
                   printable(path)),
       fmt::format("export {0}, or write ${{{0}:-TEXT}} for a TEXT where it is not set", expanded.missing)});
  return std::nullopt;
}

// Ends of names under which modules and packages export the place of a program.
constexpr std::string_view k_of_modules[] = {"BASE", "BIN",    "DIR",  "HOME",   "LIB",
                                             "PATH", "PREFIX", "ROOT", "VERSION"};

constexpr std::string_view k_own_prefix = "DDPRUN_";

std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (const OptionEntry& option : option_table()) {
    if (const std::string name = own_variable_of(option); !name.empty())
      names.push_back(name.substr(k_own_prefix.size()));
  }
  return names;
}

// Reports whether it tells a program of the others in its job.
bool is_of_programs(std::string_view name) {
  return name.starts_with("DDPRUN_PROGRAM") || name.starts_with("DDPRUN_HOSTS_") ||
         name.starts_with("DDPRUN_ADDR_") || name == "DDPRUN_READY_FILE" || name == "DDPRUN_READY_PORT" ||
         name.starts_with("DDPRUN_REPLICA");
}

// Returns what to write instead of DDPRUN_ and `name`; empty if the variable may be another program's.
std::string advice_for_unknown(const std::string& name, const std::vector<std::string>& known) {
  if (std::ranges::find(k_of_modules, name) != std::end(k_of_modules)) return {};
  std::string option = to_lower(name);
  std::ranges::replace(option, '_', '-');
  const auto& table = option_table();
  if (std::ranges::any_of(table, [&](const OptionEntry& each) { return each.name == option; }))
    return fmt::format("give --{} on the command line", option);
  const auto match = closest_match(name, known);
  return match ? fmt::format("did you mean {}{}?", k_own_prefix, *match) : std::string();
}

}  // namespace

void apply_option(Draft& draft, const OptionEntry& option, const Sourced<std::string>& given) {
  draft.origins[option.name] = given.origin;
  draft.given[option.name] = given;
  try {
    option.apply(draft, {given, option.words});
  } catch (const Unsupported& refusal) {
    draft.unsupported.push_back(refusal);
  }
}

void apply_variables(Draft& draft, const facts::Environment& environment) {
  for (const auto name_of : {&own_variable_of, &variable_of}) {
    const options::GivenOptions above = draft.given;
    for (const OptionEntry& option : option_table()) {
      const auto variable = environment.find(name_of(option));
      if (variable == environment.end() || is_settled(above, option.name)) continue;
      const auto& [name, text] = *variable;
      apply_below(draft, option, name, exported_value(option, {text, name}));
    }
  }
}

void apply_layers(Draft& draft, const facts::Environment& environment, const OptionLayers& layers) {
  for (const std::vector<facts::OptionText>& layer : layers) {
    const options::GivenOptions above = draft.given;
    for (const facts::OptionText& text : layer) {
      const OptionEntry& option = find_configured(text);
      if (is_settled(above, option.name)) continue;
      const auto value = configured_value(option, text);
      if (!value || option.completes != Completes::file) {
        apply_below(draft, option, text.origin, value);
      } else if (const auto path = expand_path(draft, environment, text.origin, *value)) {
        apply_below(draft, option, text.origin, path);
      }
    }
  }
}

void warn_of_unknown_variables(Draft& draft, const facts::Environment& environment) {
  if (environment.contains(allocation::k_worker_list_variable)) return;  // a worker's are ddprun's own
  const std::vector<std::string> known = own_variables();
  for (auto variable = environment.lower_bound(std::string(k_own_prefix));
       variable != environment.end() && variable->first.starts_with(k_own_prefix); ++variable) {
    const std::string name = variable->first.substr(k_own_prefix.size());
    const bool is_known = std::ranges::find(known, name) != known.end() ||
                          allocation::is_front_end_variable(variable->first) ||
                          variable->first == allocation::k_secret_variable || is_of_programs(variable->first);
    const std::string advice = is_known ? std::string() : advice_for_unknown(name, known);
    if (!advice.empty())
      draft.warnings.push_back(
          {printable(variable->first) + " has no effect: there is no such variable", advice});
  }
}

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
