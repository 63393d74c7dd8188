#include "facts/step_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

struct Found {
  std::optional<bool> no_kill;
  std::optional<bool> kill_on_bad_exit;
  std::optional<std::int64_t> wait;
};

void note_no_kill(Found& found, const std::string& value) { found.no_kill = to_lower(value) != "off"; }

void note_kill(Found& found, const std::string& value) {
  found.kill_on_bad_exit = value.empty() || parse_integer(value).value_or(0) != 0;
}

void note_wait(Found& found, const std::string& value) {
  found.wait = std::max<std::int64_t>(parse_integer(value).value_or(0), 0);
}

// Reports whether the name is that option: getopt_long takes a name's beginning for the name, if it is that
// of no other.
bool is_long_option(std::string_view name, std::string_view option, std::size_t least) {
  return name.size() >= least && option.starts_with(name);
}

void note_long(Found& found, const std::string& word, const std::string& next) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equals);
  const std::string value = equals < word.size() ? word.substr(equals + 1) : "";
  if (is_long_option(name, "--no-kill", 6)) note_no_kill(found, value);
  if (is_long_option(name, "--kill-on-bad-exit", 3)) note_kill(found, value);
  if (name == "--wait") note_wait(found, equals < word.size() ? value : next);
}

// Notes a word such as -lK0 or -W30: letters without a value, then one that may have one.
void note_short(Found& found, const std::string& word, const std::string& next) {
  constexpr std::string_view k_without_value = "EHjlOQqsuvVXZ";
  const std::size_t at = word.find_first_not_of(k_without_value, 1);
  if (at == std::string::npos) return;
  const std::string value = word.substr(at + 1);
  if (word[at] == 'k') note_no_kill(found, value);
  if (word[at] == 'K') note_kill(found, value);
  if (word[at] == 'W') note_wait(found, value.empty() ? next : value);
}

// Returns where the options end: the program and its arguments are the end of the command line, unless
// another program is between.
std::size_t end_of_options(const std::vector<std::string>& words, const std::vector<std::string>& arguments) {
  if (words.size() < arguments.size() + 2) return words.size();
  const std::size_t end = words.size() - arguments.size() - 1;
  return std::equal(arguments.begin(), arguments.end(), words.end() - std::ptrdiff_t(arguments.size()))
             ? end
             : words.size();
}

Found read_words(const std::vector<std::string>& words, std::size_t end) {
  Found found;
  for (std::size_t i = 1; i < end; ++i) {
    const std::string next = i + 1 < end ? words[i + 1] : "";
    if (words[i].starts_with("--")) {
      note_long(found, words[i], next);
    } else if (words[i].starts_with('-')) {
      note_short(found, words[i], next);
    }
  }
  return found;
}

Found read_variables(const Environment& environment) {
  Found found;
  const auto read = [&](const char* name, void (*note)(Found&, const std::string&)) {
    if (const auto at = environment.find(name); at != environment.end()) note(found, at->second);
  };
  read("SLURM_NO_KILL", note_no_kill);
  read("SLURM_KILL_BAD_EXIT", note_kill);
  read("SLURM_WAIT", note_wait);
  return found;
}

// Reads lines of Name=value, in capitals or not; # begins a comment.
Found read_configuration(std::string_view text) {
  Found found;
  for (const std::string& line : split(text, '\n')) {
    for (const std::string& word : split_words(line.substr(0, line.find('#')))) {
      const std::size_t equals = std::min(word.find('='), word.size() - 1);
      const std::string name = to_lower(word.substr(0, equals));
      if (name == "killonbadexit") note_kill(found, word.substr(equals + 1));
      if (name == "waittime") note_wait(found, word.substr(equals + 1));
    }
  }
  return found;
}

}  // namespace

StepOptions parse_step_options(const std::vector<std::string>& words,
                               const std::vector<std::string>& arguments, const Environment& environment,
                               std::string_view configuration) {
  StepOptions options;
  for (const Found& found : {read_configuration(configuration), read_variables(environment),
                             read_words(words, end_of_options(words, arguments))}) {
    options.no_kill = found.no_kill.value_or(options.no_kill);
    options.kill_on_bad_exit = found.kill_on_bad_exit.value_or(options.kill_on_bad_exit);
    options.wait = found.wait.value_or(options.wait);
  }
  return options;
}

std::optional<std::int64_t> parse_listener_inode(std::string_view table, int port) {
  // sl, local_address, rem_address, st, queues, tr, retrnsmt, uid, timeout, inode; 0A is LISTEN
  constexpr std::size_t k_local = 1, k_state = 3, k_inode = 9;
  const std::string ending = fmt::format(":{:04X}", port);
  for (const std::string& line : split(table, '\n')) {
    const std::vector<std::string> fields = split_words(line);
    if (fields.size() > k_inode && fields[k_state] == "0A" && fields[k_local].ends_with(ending))
      return parse_integer(fields[k_inode]);
  }
  return std::nullopt;
}

}  // namespace ddprun::facts
