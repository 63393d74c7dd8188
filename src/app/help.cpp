// --help, from the table.
#include <fmt/format.h>

#include "ddprun/app/command_line.hpp"
#include "ddprun/app/option_table.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_width = 100;
constexpr std::size_t k_help_column = 30;

struct GroupTitle {
  OptionGroup group;
  const char* title;
};

constexpr GroupTitle k_groups[] = {
    {OptionGroup::program, "The program"},        {OptionGroup::workers, "Workers and nodes"},
    {OptionGroup::meeting, "How the nodes meet"}, {OptionGroup::failures, "Failures and signals"},
    {OptionGroup::looking, "Looking first"},      {OptionGroup::about, "About ddprun"},
};

// Words joined by blanks into lines that begin at `indent` and end before `k_width`; the first line follows
// `lead`.
std::string wrap(std::string lead, const std::string& text, std::size_t indent) {
  std::string result;
  std::string line = std::move(lead);
  if (line.size() >= indent && indent > 0) {
    result = line + "\n";
    line.clear();
  }
  line.resize(std::max(line.size(), indent), ' ');
  bool empty = true;
  for (const std::string& word : split_words(text)) {
    if (!empty && line.size() + 1 + word.size() > k_width) {
      result += line + "\n";
      line.assign(indent, ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  return result + line + "\n";
}

std::string spelling(const OptionEntry& option) {
  std::string text = option.letter == '\0' ? "      " : fmt::format("  -{}, ", option.letter);
  text += fmt::format("--{}", option.name);
  if (option.value == OptionValue::required) text += fmt::format(" {}", option.metavar);
  if (option.value == OptionValue::optional) text += fmt::format("[={}]", option.metavar);
  return text + "  ";
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
      "  ddprun train.py            this machine\n"
      "  srun ddprun train.py       the nodes of a Slurm step, with one ddprun a node or one a task\n"
      "  ddprun --dry-run train.py  what would happen, and where every value came from\n";
  for (const GroupTitle& group : k_groups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const OptionEntry& option : option_table()) {
      if (option.group == group.group) text += wrap(spelling(option), option.help, k_help_column);
    }
  }
  text +=
      "\n" + wrap("",
                  "The options are torchrun's and more: names may be cut short, _ may stand for -, and "
                  "PET_ variables give defaults. TIME is in seconds or has a unit, as in 250ms, 90s, 10m.",
                  0);
  text += wrap("", "Checked but without effect: " + names_in(OptionGroup::without_effect) + ".", 0);
  text += wrap("", "Known but not supported yet: " + names_in(OptionGroup::unsupported) + ".", 0);
  return text + "\nMore in man ddprun.\n";
}

}  // namespace ddprun
