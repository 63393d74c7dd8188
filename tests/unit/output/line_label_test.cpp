#include "output/line_label.hpp"

#include <random>

#include "catch.hpp"
#include "error_text.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

const LabelFacts k_facts{GlobalRank{5}, LocalRank{1}, Attempt{2}, "nid0012", "trainer"};

std::string label(const std::string& text, bool colour = false) {
  return make_label(text, k_facts, colour, "--label").at(Milliseconds{0});
}
std::string prefix(const std::string& text) {
  return make_torchrun_prefix(text, k_facts).at(Milliseconds{0});
}
std::string labelled(std::initializer_list<const char*> pieces) {
  Labeller labeller;
  std::string output;
  for (const char* piece : pieces) labeller.append(output, piece, "> ");
  return output;
}

}  // namespace

TEST_CASE("a label has macros") {
  CHECK(label("[{rank} {host}] ") == "[5 nid0012] ");
  CHECK(label("{local_rank}/{attempt}") == "1/2");
  CHECK(label("{{{rank}}}") == "{5}");
  CHECK(make_label("{time} {rank}: ", k_facts, false, "").at(Milliseconds{3723004}) == "01:02:03.004 5: ");
  CHECK(LineLabel().at(Milliseconds{1}).empty());
}

TEST_CASE("an unknown macro of a label is named") {
  for (const char* name : {"node", "", "Rank"}) {
    CHECK(usage_error_of([&] { label(std::string("[{") + name + "}]"); }) ==
          std::string("--label has an unknown macro: '{") + name +
              "}' | the macros are {rank}, {local_rank}, {host}, {attempt} and {time}; {{ is a brace");
  }
}

TEST_CASE("a coloured label ends its colour before the blank") {
  CHECK(label("[{rank}] ", true) == "\x1b[31m[5]\x1b[0m ");
  CHECK(label("   ", true) == "\x1b[31m\x1b[0m   ");
}

TEST_CASE("colours follow the terminal unless a variable decides") {
  CHECK(decide_colour("", "", true));
  CHECK_FALSE(decide_colour("", "", false));
  CHECK_FALSE(decide_colour("1", "1", true));
  CHECK(decide_colour("", "1", false));
  CHECK_FALSE(decide_colour("", "0", false));
}

TEST_CASE("torchrun's template is Python's") {
  CHECK(prefix("") == "[trainer1]:");
  CHECK(prefix("[${rank}]:") == "[5]:");
  CHECK(prefix("$role_name$local_rank $rank> ") == "trainer1 5> ");
  CHECK(prefix("${hostname} $hostname:") == "nid0012 nid0012:");
  CHECK(prefix("$$rank $ranks ${rank ${host} $") == "$rank $ranks ${rank ${host} $");
}

TEST_CASE("each line has its label, and every byte stays") {
  CHECK(labelled({"one\ntwo\n"}) == "> one\n> two\n");
  CHECK(labelled({"o", "ne\n", "\n", "last"}) == "> one\n> \n> last");
  CHECK(labelled({"a\r", "\nb\r\n"}) == "> a\r\n> b\r\n");
}

TEST_CASE("a progress bar has its label after each return") {
  CHECK(labelled({"\r 10%", "\r 20%", "\r100%\n"}) == "\r>  10%\r>  20%\r> 100%\n");
}

TEST_CASE("without its labels the text is what was written, however it is cut") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  const std::string alphabet = "ab\n\r";
  for (int round = 0; round < test::rounds(400); ++round) {
    std::string text;
    for (auto i = random() % 40; i > 0; --i) text += alphabet[random() % alphabet.size()];
    Labeller labeller;
    std::string output;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 5;
      labeller.append(output, std::string_view(text).substr(at, length), "#");
      at += length;
    }
    Labeller whole;
    std::string at_once;
    whole.append(at_once, text, "#");
    CHECK(output == at_once);
    std::erase(output, '#');
    CHECK(output == text);
  }
}
