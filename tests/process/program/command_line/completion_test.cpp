// The completion scripts, asked as the shells ask them.
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "catch.hpp"
#include "command_line/command_line.hpp"
#include "command_line/option_table.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string output;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) output += static_cast<char>(c);
  return output;
}

// What bash offers for the last of `words`; "files" when it falls back to file names.
std::string completed(const std::vector<std::string>& words) {
  const std::string script = render_completion("bash") +
                             "compopt() { echo -n files; }\n"
                             "COMP_WORDS=(ddprun " +
                             shell_quote(words) + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" +
                             "_ddprun; echo -n \"${COMPREPLY[@]}\"\n";
  return output_of("bash --norc --noprofile -c " + shell_quote(std::string_view(script)) + " 2>&1");
}

}  // namespace

TEST_CASE("bash completes names of options") {
  CHECK(completed({"--nn"}) == "--nnodes");
  CHECK(completed({"-m", "--node"}) == "--node-rank --nodes");
  CHECK(split_words(completed({"--"})).size() == option_table().size());
}

TEST_CASE("bash completes the words an option takes") {
  CHECK(completed({"--nproc-per-node", ""}) == "auto gpu cpu xpu");
  CHECK(completed({"--nproc-per-node", "="}) == "auto gpu cpu xpu");
  CHECK(completed({"--store", "=", "w"}) == "worker");
  CHECK(completed({"--dry-run", "=", "j"}) == "json");
  CHECK(completed({"--nnodes", ""}).empty());
}

TEST_CASE("bash completes files where a script or a file is due") {
  CHECK(completed({""}) == "files");
  CHECK(completed({"--capture", ""}) == "files");
  CHECK(completed({"--nnodes", "2", ""}) == "files");
  CHECK(completed({"--nnodes", "=", "2", ""}) == "files");
  CHECK(completed({"--dry-run", "tr"}) == "files");
  CHECK(completed({"--dry-run", "=", "json", "tr"}) == "files");
}

TEST_CASE("after the script bash offers files and no options of ours") {
  CHECK(completed({"train.py", "--nn"}) == "files");
  CHECK(completed({"-r", "3", "train.py", "--store", ""}) == "files");
  CHECK(completed({"--", "--nn"}) == "files");
}

TEST_CASE("zsh and tcsh are told every option") {
  const std::string zsh = render_completion("zsh");
  const std::string tcsh = render_completion("tcsh");
  for (const OptionEntry& option : option_table()) {
    CAPTURE(option.name);
    CHECK(zsh.find(std::string("'--") + option.name) != std::string::npos);
    CHECK(tcsh.find(option.name) != std::string::npos);
  }
}
