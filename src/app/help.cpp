// --help, from the table.
#include <fmt/format.h>

#include "ddprun/app/command_line.hpp"
#include "ddprun/app/option_table.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_width = 100;
constexpr std::size_t k_help_column = 35;

struct GroupTitle {
  OptionGroup group;
  const char* title;
};

constexpr GroupTitle k_groups[] = {
    {OptionGroup::program, "The program"},           {OptionGroup::workers, "Workers and nodes"},
    {OptionGroup::meeting, "How the nodes meet"},    {OptionGroup::binding, "Binding"},
    {OptionGroup::failures, "Failures and signals"}, {OptionGroup::output, "Output"},
    {OptionGroup::looking, "Looking first"},         {OptionGroup::about, "About ddprun"},
};

// Lines that begin at `indent` and end before `k_width`, cut between words.
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

std::string entry(const OptionEntry& option) {
  const std::string name = spelling(option);
  std::string help = wrap(option.help, k_help_column);
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

}  // namespace

std::string render_help() {
  std::string text =
      "Usage: ddprun [options] SCRIPT [arguments of SCRIPT]\n"
      "\n"
      "Starts a PyTorch script once for each GPU, on this machine or on all nodes of an allocation.\n"
      "\n"
      "  ddprun train.py            this machine, or in a batch script every node of the job\n"
      "  srun ddprun train.py       the nodes of a Slurm step, with one ddprun a node or one a task\n"
      "  ddprun --dry-run train.py  what would happen, and where every value came from\n";
  for (const GroupTitle& group : k_groups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const OptionEntry& option : option_table()) {
      if (option.group == group.group) text += entry(option);
    }
  }
  const std::string rules =
      "The options are torchrun's and more: names may be cut short, _ may stand for -, and PET_ variables "
      "give defaults. TIME is in seconds or has a unit, as in 250ms, 90s, 10m.";
  text += "\n" + wrap(rules, 0);
  text += "\nChecked but without effect:\n" + wrap(names_in(OptionGroup::without_effect), 2);
  text += "\nKnown but not supported yet:\n" + wrap(names_in(OptionGroup::unsupported), 2);
  return text + "\nMore in man ddprun.\n";
}

}  // namespace ddprun
