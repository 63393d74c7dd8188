// --print-completion, from the table. Evaluated by the shell, so nothing here may come from elsewhere.
#include <fmt/format.h>

#include "base/text.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"

namespace ddprun::command_line {

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

}  // namespace ddprun::command_line
