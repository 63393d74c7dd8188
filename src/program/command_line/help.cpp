#include "command_line/help.hpp"

#include <features.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"
#include "version_number.hpp"

namespace ddprun::command_line {

// --help, one screen for daily use, and --help-all, from the table.

namespace {

constexpr std::size_t k_width = 80;
constexpr std::size_t k_help_column = 30;

struct GroupTitle {
  OptionGroup group;
  const char* title;
};

constexpr GroupTitle k_groups[] = {
    {OptionGroup::program, "The program"},
    {OptionGroup::programs, "Several programs"},
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

// --print-completion, from the table. Evaluated by the shell, so nothing here may come from elsewhere.

namespace {

std::vector<std::string> spellings(const OptionEntry& option) {
  std::vector<std::string> names{fmt::format("--{}", option.name)};
  if (option.letter != '\0') names.push_back(fmt::format("-{}", option.letter));
  return names;
}

// Returns "--store", or "--redirects|-r" for a case label.
template <class Choose>
std::string labels_of(const Choose& chosen) {
  std::vector<std::string> labels;
  for (const OptionEntry& option : option_table()) {
    if (chosen(option)) labels.push_back(join(spellings(option), "|"));
  }
  return join(labels, "|");
}

std::string all_names(const char* dashes) {
  std::vector<std::string> names;
  for (const OptionEntry& option : option_table()) names.push_back(fmt::format("{}{}", dashes, option.name));
  return join(names, " ");
}

// bash cuts "--name=value" into three words. After the script, files are all there is to offer.
constexpr const char* k_bash_start = R"(_ddprun() {
    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} joined= index
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${COMP_WORDS[index]} in
            =) ((index++)) ;;
)";
constexpr const char* k_bash_values = R"(                [[ ${COMP_WORDS[index+1]} == = ]] || ((index++)) ;;
            --) compopt -o default; return ;;
            -*) ;;
            *) compopt -o default; return ;;
        esac
    done
    if [[ $current == = ]]; then
        current= joined=1
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]} joined=1
    fi
    case $option in
)";
constexpr const char* k_bash_end = R"(    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$names" -- "$current"))
    else
        compopt -o default
    fi
}
complete -F _ddprun ddprun
)";

std::string render_bash() {
  const auto takes_value = [](const OptionEntry& option) { return option.value == OptionValue::required; };
  std::string text = k_bash_start;
  text += fmt::format("            {})\n", labels_of(takes_value)) + k_bash_values;
  for (const OptionEntry& option : option_table()) {
    if (option.completes != Completes::words) continue;
    std::string offer = fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return", option.words);
    // Without '=', an option whose value may be left out has none.
    if (option.value == OptionValue::optional) offer = fmt::format("[[ $joined ]] && {{ {}; }}", offer);
    text += fmt::format("        {}) {} ;;\n", join(spellings(option), "|"), offer);
  }
  text +=
      fmt::format("        {}) compopt -o default; return ;;\n",
                  labels_of([](const OptionEntry& option) { return option.completes == Completes::file; }));
  text += fmt::format("        {}) return ;;\n", labels_of([&](const OptionEntry& option) {
                        return takes_value(option) && option.completes == Completes::nothing;
                      }));
  std::string end = k_bash_end;
  end.replace(end.find("$names"), 6, all_names("--"));
  return text + end;
}

// Escapes what ends the explanation or the message in a specification of _arguments.
std::string escape_zsh(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_specification(const OptionEntry& option) {
  std::string value;
  if (option.value != OptionValue::none) {
    value =
        fmt::format("{}{}:", option.value == OptionValue::optional ? "::" : ":", escape_zsh(option.metavar));
    if (option.completes == Completes::words) value += fmt::format("({})", option.words);
    if (option.completes == Completes::file) value += "_files";
  }
  const char* joint = option.value == OptionValue::none       ? ""
                      : option.value == OptionValue::required ? "="
                                                              : "=-";
  const std::string rest = fmt::format("[{}]{}", escape_zsh(option.help), value);
  std::string text = fmt::format("    '--{}{}{}'", option.name, joint, rest);
  if (option.letter != '\0') {
    text +=
        fmt::format(" \\\n    '-{}{}{}'", option.letter, option.value == OptionValue::none ? "" : "+", rest);
  }
  return text;
}

std::string render_zsh() {
  std::string text = "#compdef ddprun\n_ddprun() {\n  _arguments -s -S \\\n";
  for (const OptionEntry& option : option_table()) text += zsh_specification(option) + " \\\n";
  return text +
         "    '(-)1:script:_files' \\\n"
         "    '(-)*:argument:_files'\n"
         "}\n"
         "if [[ ${funcstack[1]} == _ddprun ]]; then\n"
         "  _ddprun \"$@\"\n"
         "else\n"
         "  compdef _ddprun ddprun\n"
         "fi\n";
}

std::string render_tcsh() {
  std::string text = "complete ddprun";
  for (const OptionEntry& option : option_table()) {
    if (option.completes != Completes::words || option.value != OptionValue::required) continue;
    text += fmt::format(" 'n/--{}/({})/'", option.name, option.words);
  }
  return text + fmt::format(" 'c/--/({})/' 'n/*/f/'\n", all_names(""));
}

// Escapes the only two characters that have a meaning in fish's single quotes.
std::string escape_fish(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Beginning of fish's script: until the user's script is named, files are offered beside the options; after
// it, files alone.
constexpr const char* k_fish_start = R"(complete -c ddprun -e
function __ddprun_before_script
    set -l words (commandline -opc)
    set -l skip
    for word in $words[2..-1]
        if set -q skip[1]
            set -e skip
            continue
        end
        switch $word
            case --
                return 1
)";
constexpr const char* k_fish_end = R"(                set skip 1
            case '-*'
            case '*'
                return 1
        end
    end
    return 0
end
)";

std::string render_fish() {
  std::vector<std::string> with_value;
  std::string lines;
  for (const OptionEntry& option : option_table()) {
    lines += fmt::format("complete -c ddprun -n __ddprun_before_script -l {}", option.name);
    if (option.letter != '\0') lines += fmt::format(" -s {}", option.letter);
    if (option.value == OptionValue::required) {
      for (const std::string& name : spellings(option)) with_value.push_back(name);
      lines += option.completes == Completes::file ? " -r -F" : " -x";
    }
    if (option.completes == Completes::words) lines += fmt::format(" -a '{}'", option.words);
    lines += fmt::format(" -d '{}'\n", escape_fish(option.help));
  }
  return k_fish_start + fmt::format("            case {}\n", join(with_value, " ")) + k_fish_end + lines;
}

}  // namespace

std::string render_completion(const std::string& shell) {
  if (shell == "bash") return render_bash();
  if (shell == "fish") return render_fish();
  return shell == "zsh" ? render_zsh() : render_tcsh();
}

// --version. CMake defines DDPRUN_COMMIT, DDPRUN_COMPILER, DDPRUN_PROCESSOR and DDPRUN_BUILD_TYPE for this
// file alone.

std::string render_version(const std::vector<os::OptionalLibrary>& libraries, const std::string& hwloc) {
  const std::string commit = DDPRUN_COMMIT;
  std::string text = fmt::format("ddprun {}{}\n", DDPRUN_VERSION, commit.empty() ? "" : ", commit " + commit);
  text += fmt::format("built for {} with glibc {}.{} by {} ({})\n", DDPRUN_PROCESSOR, __GLIBC__,
                      __GLIBC_MINOR__, DDPRUN_COMPILER, DDPRUN_BUILD_TYPE);
  text += fmt::format("{:<10}{}, built in\n", "hwloc", hwloc);
  for (const os::OptionalLibrary& library : libraries) {
    text += fmt::format("{:<10}{}\n", library.name, library.file.empty() ? "not found" : library.file);
  }
  return text;
}

}  // namespace ddprun::command_line
