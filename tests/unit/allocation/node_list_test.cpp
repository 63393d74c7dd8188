// Lists of hosts that are not Slurm's: Open MPI's, and files with one host a line.
#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;
using Names = std::vector<std::string>;

namespace {

template <class Parse>
std::string refusal(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string regex_refusal(const std::string& text) {
  return refusal([&] { expand_node_regex(text, "V"); });
}

std::string file_refusal(const std::string& contents) {
  return refusal([&] { parse_node_file(contents, "/f"); });
}

}  // namespace

TEST_CASE("Open MPI's lists are expanded with the width before the colon") {
  CHECK(expand_node_regex("n[1:1-2]@0(2)", "V") == Names{"n1", "n2"});
  CHECK(expand_node_regex("nid[5:12-13,7]@0(3)", "V") == Names{"nid00012", "nid00013", "nid00007"});
  CHECK(expand_node_regex("n[2:9-10]-ib.x,login@0,1(2)", "V") == Names{"n09-ib.x", "n10-ib.x", "login"});
  CHECK(expand_node_regex("login", "V") == Names{"login"});
}

TEST_CASE("damaged lists of Open MPI are named with their piece") {
  CHECK(regex_refusal("n[1:1-2") == "V is not a list of hosts: a '[' without ']' in \"n[1:1-2\"");
  CHECK(regex_refusal("n[1-2]") == "V is not a list of hosts: no width before the ranges in \"n[1-2]\"");
  CHECK(regex_refusal("n[1:2-1]") == "V is not a list of hosts: range 2-1 runs backwards in \"n[1:2-1]\"");
  CHECK(regex_refusal("n[1:x]") == "V is not a list of hosts: \"x\" is not a number in \"n[1:x]\"");
  CHECK(regex_refusal("n[:1]") == "V is not a list of hosts: \"\" is not a number in \"n[:1]\"");
  CHECK(regex_refusal("n[99:1]") ==
        "V is not a list of hosts: numbers of more than 18 digits in \"n[99:1]\"");
  CHECK(regex_refusal("a,,b") == "V is not a list of hosts: \"\" is not a name in \"\"");
  CHECK(regex_refusal("@0(2)") == "V is not a list of hosts: \"\" is not a name in \"\"");
  CHECK(regex_refusal("n[1:0-999999999]") ==
        "V is not a list of hosts: range 0-999999999 has more than 131072 hosts in \"n[1:0-999999999]\"");
}

TEST_CASE("a node file has each host once, by first appearance") {
  const NodeFile file = parse_node_file("h1\nh1 \nH2.cluster\n\nh1\nh2\r\n", "/f");
  CHECK(file.hosts == Names{"h1", "H2.cluster"});
  CHECK(file.slots == std::vector<int>{3, 2});
}

TEST_CASE("a node file that is none is named with its line") {
  CHECK(file_refusal("") == "the node file /f is empty");
  CHECK(file_refusal("h1\nh 2\n") == "the node file /f names no host in line 2: \"h 2\"");
  CHECK(file_refusal(std::string(300, 'h')) == "the node file /f has more than 255 bytes in line 1");
  CHECK(file_refusal(std::string(k_node_file_limit + 1, '\n')) ==
        "the node file /f is longer than 1048576 bytes");
}
