// --help, one screen for daily use, and --help-all, from the table.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"

namespace ddprun::command_line {

namespace {

constexpr std::size_t k_width = 80;
constexpr std::size_t k_help_column = 30;

struct GroupTitle {
  OptionGroup group;
  const char* title;
};

constexpr GroupTitle k_groups[] = {
    {OptionGroup::program, "The program"},
    {OptionGroup::workers, "Workers and nodes"},
    {OptionGroup::discovery, "Rendezvous"},
    {OptionGroup::binding, "Binding"},
    {OptionGroup::failures, "Failures and signals"},
    {OptionGroup::output, "Output"},
    {OptionGroup::looking, "Inspection"},
    {OptionGroup::about, "About ddprun"},
};

// Wraps into lines that begin at `indent` and end before `k_width`, cut between words.
std::string wrap(const std::string& text, std::size_t indent) {
  std::string result;
  std::string line(indent, ' ');
  for (const std::string& word : split_words(text)) {
    if (line.size() > indent && line.size() + 1 + word.size() > k_width) {
      result += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
  }
  return result + line + "\n";
}

std::string spelling(const OptionEntry& option) {
  std::string text = option.letter == '\0' ? "      " : fmt::format("  -{}, ", option.letter);
  text += fmt::format("--{}", option.name);
  if (option.value == OptionValue::required) text += fmt::format(" {}", option.metavar);
  if (option.value == OptionValue::optional) text += fmt::format("[={}]", option.metavar);
  return text;
}

std::string entry(const OptionEntry& option, const char* words) {
  const std::string name = spelling(option);
  std::string help = wrap(words, k_help_column);
  if (name.size() + 2 > k_help_column) return name + "\n" + help;
  return help.replace(0, name.size(), name);
}

std::string names_in(OptionGroup group) {
  std::vector<std::string> names;
  for (const OptionEntry& option : option_table()) {
    if (option.group == group) names.push_back(fmt::format("--{}", option.name));
  }
  return join(names, ", ");
}

constexpr const char* k_usage =
    "Usage: ddprun [options] SCRIPT [arguments of SCRIPT]\n"
    "\n"
    "Starts a PyTorch script once per GPU, on this machine or on all nodes of a job.\n"
    "\n"
    "  ddprun train.py            this machine; in a batch job, all its nodes\n"
    "  srun ddprun train.py       the nodes of a Slurm step\n"
    "  ddprun --dry-run train.py  print the plan and why; start nothing\n";

// The common options, each on one line.
constexpr std::array<std::pair<const char*, const char*>, 12> k_daily{{
    {"nproc-per-node", "workers per node (default: one per GPU)"},
    {"nnodes", "number of nodes (default: the allocation's)"},
    {"hosts", "hosts to run on, started through ssh"},
    {"module", "run SCRIPT as a module, as python -m does"},
    {"no-python", "run a program instead of a Python script"},
    {"max-restarts", "restarts of all workers after a failure"},
    {"bind", "cores of each worker: auto, near, none, ..."},
    {"show-binding", "print where each worker runs"},
    {"print-config", "print the options that are set and their origin"},
    {"verbose", "print what ddprun does and why"},
    {"help-all", "print all options"},
    {"version", "print version, build and libraries"},
}};

}  // namespace

std::string render_help() {
  std::string text = std::string(k_usage) + "\nCommon options:\n";
  for (const OptionEntry& option : option_table()) {
    const auto daily = std::ranges::find_if(
        k_daily, [&](const auto& each) { return std::string_view(each.first) == option.name; });
    if (daily != k_daily.end()) text += entry(option, daily->second);
  }
  return text + "\nAll torchrun options are recognised. More: ddprun --help-all, man ddprun.\n";
}

std::string render_help_all() {
  std::string text = k_usage;
  for (const GroupTitle& group : k_groups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const OptionEntry& option : option_table()) {
      if (option.group == group.group) text += entry(option, option.help);
    }
  }
  const std::string rules =
      "Option names may be abbreviated, and _ is read as -. Defaults come from DDPRUN_ variables, torchrun's "
      "PET_ variables, $XDG_CONFIG_HOME/ddprun/config.json and /etc/ddprun/config.json, in this order. TIME "
      "is a number of seconds or has a unit, as in 250ms, 90s, 10m.";
  text += "\n" + wrap(rules, 0);
  text += "\nAccepted without effect:\n" + wrap(names_in(OptionGroup::without_effect), 2);
  text += "\nRecognised but not supported yet:\n" + wrap(names_in(OptionGroup::unsupported), 2);
  return text + "\nMore in man ddprun and man ddprun-formats.\n";
}

}  // namespace ddprun::command_line
