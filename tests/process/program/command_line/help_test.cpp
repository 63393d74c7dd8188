// The help and the man page against the table of options.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "catch.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The man page with roff's escapes for '-' and its fonts taken out.
std::string man_page() {
  std::ifstream file(DDPRUN_MAN_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  std::string page = text.str();
  for (const auto& [from, to] : {std::pair("\\-", "-"), std::pair("\\fB", ""), std::pair("\\fI", ""),
                                 std::pair("\\fR", ""), std::pair("\\fP", "")}) {
    const std::string escape = from;
    for (std::size_t at = page.find(escape); at != std::string::npos; at = page.find(escape, at)) {
      page.replace(at, escape.size(), to);
    }
  }
  return page;
}

// The lines that follow a .TP: the options and variables that have an entry of their own.
std::set<std::string> man_entries() {
  std::set<std::string> entries;
  std::string before;
  for (const std::string& line : split(man_page(), '\n')) {
    if (before == ".TP") {
      for (std::string word : split_words(line)) {
        word = word.substr(0, word.find_first_of("=[,"));
        entries.insert(word);
      }
    }
    before = line;
  }
  return entries;
}

}  // namespace

TEST_CASE("the help of most days fits a terminal of 80 columns and 24 lines, the prompt included") {
  const std::vector<std::string> lines = split(render_help(), '\n');
  CHECK(lines.size() <= 24);
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK(contains(render_help(), "--nproc-per-node N"));
  CHECK(contains(render_help(), "--help-all"));
}

TEST_CASE("the whole help names every option and fits 80 columns") {
  const std::string help = render_help_all();
  for (const OptionEntry& option : option_table()) {
    CAPTURE(option.name);
    CHECK(contains(help, std::string("--") + option.name));
  }
  for (const std::string& line : split(help, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("the man page has an entry for every option and names its variable") {
  const std::set<std::string> entries = man_entries();
  const std::string page = man_page();
  for (const OptionEntry& option : option_table()) {
    CAPTURE(option.name);
    CHECK(entries.count(std::string("--") + option.name) == 1);
    if (option.letter != '\0') CHECK(entries.count(std::string("-") + option.letter) == 1);
    CHECK(contains(page, "( " + variable_of(option)));
  }
}

TEST_CASE("the man page has no entry for an option that does not exist") {
  std::set<std::string> names;
  for (const OptionEntry& option : option_table()) names.insert(std::string("--") + option.name);
  for (const std::string& entry : man_entries()) {
    if (!entry.starts_with("--")) continue;
    CAPTURE(entry);
    CHECK(names.count(entry) == 1);
  }
}

TEST_CASE("names and letters are not used twice") {
  std::set<std::string> names;
  std::set<char> letters;
  for (const OptionEntry& option : option_table()) {
    CAPTURE(option.name);
    CHECK(names.insert(option.name).second);
    if (option.letter != '\0') CHECK(letters.insert(option.letter).second);
  }
}

TEST_CASE("torchrun's variables follow from the names of its options") {
  const auto& table = option_table();
  const auto find = [&](const std::string& name) {
    return *std::find_if(table.begin(), table.end(),
                         [&](const OptionEntry& each) { return each.name == name; });
  };
  CHECK(variable_of(find("nproc-per-node")) == "PET_NPROC_PER_NODE");
  CHECK(variable_of(find("tee")) == "PET_TEE");
  CHECK(variable_of(find("numa-binding")).empty());
  CHECK(variable_of(find("dry-run")).empty());
}
