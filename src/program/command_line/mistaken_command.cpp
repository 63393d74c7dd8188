#include "command_line/mistaken_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/option_table.hpp"

namespace ddprun::command_line {

namespace {

using Words = std::vector<std::string>;

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void append(Words& words, std::span<const std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

Words without_module(const Words& words) {
  Words kept;
  std::ranges::copy_if(words, std::back_inserter(kept),
                       [](const std::string& word) { return word != "-m" && word != "--module"; });
  return kept;
}

// Replacement of another launcher in a command line.
enum class Replaced {
  by_ddprun,       // its options are ddprun's
  with_its_words,  // its options are its own
  around_ddprun,   // it starts ddprun
};

struct OtherLauncher {
  std::string_view name;  // name of the program, or of the module
  std::string_view subcommand;
  Replaced replaced;
};

constexpr OtherLauncher k_launchers[] = {
    {"torchrun", "", Replaced::by_ddprun},
    {"torchrun_jsc", "", Replaced::by_ddprun},
    {"torch.distributed.run", "", Replaced::by_ddprun},
    {"torch.distributed.launch", "", Replaced::by_ddprun},
    {"accelerate", "launch", Replaced::with_its_words},
    {"accelerate.commands.launch", "", Replaced::with_its_words},
    {"deepspeed", "", Replaced::with_its_words},
    {"deepspeed.launcher.runner", "", Replaced::with_its_words},
    {"horovodrun", "", Replaced::with_its_words},
    {"srun", "", Replaced::around_ddprun},
    {"mpirun", "", Replaced::around_ddprun},
    {"mpiexec", "", Replaced::around_ddprun},
    {"mpiexec.hydra", "", Replaced::around_ddprun},
    {"orterun", "", Replaced::around_ddprun},
    {"prun", "", Replaced::around_ddprun},
    {"aprun", "", Replaced::around_ddprun},
    {"jsrun", "", Replaced::around_ddprun},
    {"ibrun", "", Replaced::around_ddprun},
};

// The launcher and what follows it. Without a row: the command is none.
struct FoundLauncher {
  const OtherLauncher* row = nullptr;
  Words rest;
};

FoundLauncher find_launcher(const options::Options& options) {
  const Words& command = options.command;
  std::size_t at = 0;
  if (!options.module && base_name(command.front()).starts_with("python")) {
    at = static_cast<std::size_t>(std::ranges::find(command, "-m") - command.begin()) + 1;
    const bool first = std::all_of(command.begin() + 1, command.begin() + static_cast<std::ptrdiff_t>(at) - 1,
                                   [](const std::string& word) { return word.starts_with('-'); });
    if (at >= command.size() || !first) return {};
  }
  for (const OtherLauncher& each : k_launchers) {
    if (base_name(command[at]) != each.name) continue;
    std::size_t next = at + 1;
    if (!each.subcommand.empty()) {
      if (next >= command.size() || command[next] != each.subcommand) continue;
      ++next;
    }
    return {&each, Words(command.begin() + static_cast<std::ptrdiff_t>(next), command.end())};
  }
  return {};
}

// The program in the words of another launcher: python and its -u are dropped, as ddprun adds them.
struct Program {
  Words launcher;  // the launcher's own words
  Words script;    // empty: not found
};

Program find_script(const Words& rest) {
  const auto python = std::ranges::find_if(
      rest, [](const std::string& word) { return base_name(word).starts_with("python"); });
  auto script = python;
  if (python != rest.end()) {
    ++script;
    while (script != rest.end() && *script == "-u") ++script;
  } else {
    script = std::ranges::find_if(rest, [](const std::string& word) { return word.ends_with(".py"); });
  }
  const auto end_of_words = python != rest.end() ? python : script;
  return {Words(rest.begin(), end_of_words), Words(script, rest.end())};
}

std::string line_with_ddprun(const FoundLauncher& found, const Words& before) {
  Words line{"ddprun"};
  append(line, without_module(before));
  if (found.row->name == "torch.distributed.launch") {
    const bool by_environment = std::ranges::any_of(
        found.rest, [](const std::string& word) { return word == "--use-env" || word == "--use_env"; });
    if (!by_environment) line.emplace_back("--no-use-env");
  }
  if (found.row->replaced == Replaced::by_ddprun) {
    append(line, found.rest);
    return shell_quote(line);
  }
  const Program program = find_script(found.rest);
  if (program.script.empty()) {
    line.emplace_back("SCRIPT");
  } else {
    append(line, program.script);
  }
  if (found.row->replaced == Replaced::with_its_words) return shell_quote(line);
  Words whole{std::string(found.row->name)};
  append(whole, program.launcher);
  append(whole, line);
  return shell_quote(whole);
}

void refuse_launcher(const options::Options& options, const Words& before) {
  const FoundLauncher found = find_launcher(options);
  if (found.row == nullptr) return;
  std::string name{found.row->name};
  if (!found.row->subcommand.empty()) name += fmt::format(" {}", found.row->subcommand);
  const std::string line = printable(line_with_ddprun(found, before), 1000);
  const std::string what = fmt::format("every worker would start {} and so a job of its own", name);
  switch (found.row->replaced) {
    case Replaced::by_ddprun:
      throw UsageError(what, fmt::format("ddprun replaces {}: write {}", name, line));
    case Replaced::with_its_words:
      throw UsageError(what,
                       fmt::format("ddprun replaces {}: write {}; --nproc-per-node and --nnodes set the "
                                   "numbers of workers and nodes",
                                   name, line));
    case Replaced::around_ddprun:
      throw UsageError(what, fmt::format("{} starts ddprun: write {}", name, line));
  }
}

// Dashes that word processors and web pages put in place of hyphens, in UTF-8.
struct Dash {
  std::string_view bytes;
  const char* name;
};
constexpr Dash k_dashes[] = {
    {"\xE2\x80\x90", "the hyphen U+2010"},      {"\xE2\x80\x91", "the hyphen U+2011"},
    {"\xE2\x80\x92", "the figure dash U+2012"}, {"\xE2\x80\x93", "an en dash (U+2013)"},
    {"\xE2\x80\x94", "an em dash (U+2014)"},    {"\xE2\x80\x95", "the bar U+2015"},
    {"\xE2\x88\x92", "the minus sign U+2212"},  {"\xEF\xB9\xA3", "the small hyphen U+FE63"},
    {"\xEF\xBC\x8D", "the wide hyphen U+FF0D"},
};

const Dash* find_dash(std::string_view text) {
  const auto* const found =
      std::ranges::find_if(k_dashes, [&](const Dash& each) { return text.starts_with(each.bytes); });
  return found == std::end(k_dashes) ? nullptr : found;
}

void refuse_dash(const std::string& word) {
  const Dash* const dash = find_dash(word);
  if (dash == nullptr) return;
  std::string name = with_hyphens(word);
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  const bool letter = name.size() == 1 || (name.size() > 1 && name[1] == '=');
  const std::string hyphens = letter ? "-" : "--";
  throw UsageError(fmt::format("{} begins with {} instead of hyphens", printable(word), dash->name),
                   fmt::format("type it: {}{}", hyphens, printable(name)));
}

// Options that scripts often have themselves, so that their names say nothing about whom they are meant for.
constexpr std::string_view k_of_scripts[] = {
    "bind",     "capture",      "check",        "container", "dry-run", "event-log-handler",
    "events",   "fold",         "gather",       "gpus",      "grow",    "help",
    "hosts",    "label",        "logs",         "launcher",  "log-dir", "metrics",
    "module",   "output",       "quiet",        "ranks",     "report",  "requeue",
    "role",     "scheduler",    "site",         "snapshot",  "spares",  "stacks",
    "stage",    "standby",      "start-method", "status",    "store",   "strict",
    "timeline", "timestamps",   "topology",     "verbose",   "version", "watch",
    "nic",      "exclude-file", "restart",      "drain",     "profile", "name",
    "env",      "job",          "nodes",        "with",      "after",   "ready"};

bool is_of_scripts(std::string_view name) {
  return std::ranges::find(k_of_scripts, name) != std::end(k_of_scripts);
}

// "--nproc_per_node=2" is nproc-per-node; null where a word is no option of ddprun's by its whole name.
const OptionEntry* find_whole_option(std::string_view word) {
  std::string name{word.substr(0, word.find('='))};
  std::ranges::replace(name, '_', '-');
  const auto& table = option_table();
  const auto found = std::ranges::find_if(table, [&](const OptionEntry& each) { return each.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// The script's arguments, taken apart into options of ddprun and the others.
struct ProgramArguments {
  Words names;   // "--nproc-per-node"
  Words moved;   // with their values
  Words others;  // the script and its own
};

ProgramArguments take_apart(const options::Options& options) {
  const Words& command = options.command;
  ProgramArguments found;
  found.others.push_back(command.front());
  std::size_t at = 1;
  for (; at < command.size() && command[at] != "--"; ++at) {
    const std::string& word = command[at];
    const OptionEntry* const option = word.starts_with("--") ? find_whole_option(word.substr(2)) : nullptr;
    if (option == nullptr || is_of_scripts(option->name) || options.given.contains(option->name)) {
      found.others.push_back(word);
      continue;
    }
    found.names.push_back(word.substr(0, word.find('=')));
    found.moved.push_back(word);
    const bool takes_next = option->value == OptionValue::required && word.find('=') == std::string::npos;
    if (takes_next && at + 1 < command.size()) found.moved.push_back(command[++at]);
  }
  found.others.insert(found.others.end(), command.begin() + static_cast<std::ptrdiff_t>(at), command.end());
  return found;
}

// Units of a time in two words, "5 min", and each as --hang-timeout takes it.
constexpr std::pair<std::string_view, std::string_view> k_units[] = {
    {"ms", "ms"}, {"s", "s"},   {"sec", "s"},  {"secs", "s"},   {"second", "s"},  {"seconds", "s"},
    {"m", "m"},   {"min", "m"}, {"mins", "m"}, {"minute", "m"}, {"minutes", "m"}, {"h", "h"},
    {"hr", "h"},  {"hrs", "h"}, {"hour", "h"}, {"hours", "h"}};

std::string hint_of_time(const std::string& word, const Words& typed_options) {
  const auto* const unit =
      std::ranges::find_if(k_units, [&](const auto& each) { return each.first == word; });
  if (unit == std::end(k_units) || typed_options.size() < 2) return {};
  const std::string& option = typed_options[typed_options.size() - 2];
  const OptionEntry* const entry = option.starts_with("--") ? find_whole_option(option.substr(2)) : nullptr;
  const bool is_time =
      entry != nullptr && std::string_view(entry->metavar).find("TIME") != std::string_view::npos;
  if (!is_time || !parse_number(typed_options.back())) return {};
  return fmt::format("write the time as one word: {} {}{}", option, typed_options.back(), unit->second);
}

}  // namespace

std::string with_hyphens(std::string_view word) {
  std::string plain;
  while (!word.empty()) {
    const Dash* const dash = find_dash(word);
    plain += dash != nullptr ? '-' : word.front();
    word.remove_prefix(dash != nullptr ? dash->bytes.size() : 1);
  }
  return plain;
}

TypedWords split_typed(const Words& arguments, const Words& options, std::size_t command_words) {
  TypedWords typed{Words(arguments.begin(), arguments.end() - static_cast<std::ptrdiff_t>(command_words)),
                   false, options};
  typed.closed = !typed.before.empty() && typed.before.back() == "--";
  if (typed.closed) typed.before.pop_back();
  return typed;
}

void refuse_mistaken_command(const options::Options& options, const TypedWords& typed) {
  const std::string& word = options.command.front();
  if (word.empty())
    throw UsageError("the name of the script is empty", "look for an unset variable on the command line");
  if (word == "-")
    throw UsageError("- is no script: standard input is for the workers", "write the script into a file");
  refuse_dash(word);
  refuse_launcher(options, typed.before);
}

std::string hint_where_missing(const options::Options& options, const TypedWords& typed) {
  const std::string& word = options.command.front();
  if (word.find(' ') != std::string::npos) {
    return fmt::format("in quotes it is one word, the name of a file; without them: ddprun {}",
                       printable(word));
  }
  if (std::string hint = hint_of_time(word, typed.options); !hint.empty()) return hint;
  Words line{"ddprun"};
  append(line, typed.before);
  constexpr std::string_view k_verbs[] = {"run", "launch", "start", "exec"};
  if (options.command.size() > 1 && std::ranges::find(k_verbs, word) != std::end(k_verbs)) {
    append(line, std::span(options.command).subspan(1));
    return fmt::format("ddprun has no subcommands: {}", printable(shell_quote(line), 400));
  }
  if (find_whole_option(word) == nullptr) return {};
  line.push_back("--" + word);
  append(line, std::span(options.command).subspan(1));
  return fmt::format("did you mean {}?", printable(shell_quote(line), 400));
}

std::optional<allocation::Notice> find_behind_script(const options::Options& options,
                                                     const TypedWords& typed) {
  if (typed.closed || options.command.empty()) return std::nullopt;
  const ProgramArguments found = take_apart(options);
  if (found.names.empty()) return std::nullopt;
  Words line{"ddprun"};
  append(line, typed.before);
  append(line, found.moved);
  append(line, found.others);
  const bool one = found.names.size() == 1;
  return allocation::Notice{
      fmt::format("{} after {} {} no effect on ddprun", printable(join(found.names, ", ")),
                  printable(options.command.front()),
                  one ? "is an argument of the script and has" : "are arguments of the script and have"),
      fmt::format(
          "write {0} before the script: {1}; if {2} for the script, -- before {3} silences this notice",
          one ? "it" : "them", printable(shell_quote(line), 400), one ? "it is" : "they are",
          printable(options.command.front()))};
}

}  // namespace ddprun::command_line
