#include "allocation/hostlist.hpp"

#include <random>

#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

std::string expanded(const std::string& list) { return join(expand_hostlist(list, "LIST"), ","); }

std::string complaint(const std::string& list) {
  try {
    return "no complaint, but " + expanded(list);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("host lists expand as libslurm expands them") {
  const std::vector<std::pair<std::string, std::string>> vectors{
      {"n[1-3]", "n1,n2,n3"},
      {"n[09-11]", "n09,n10,n11"},
      {"n[1-02]", "n1,n2"},
      {"n[01-2]", "n01,n02"},
      {"n[001-003,7,10-12]", "n001,n002,n003,n7,n10,n11,n12"},
      {"jwb[0001,0003-0005]", "jwb0001,jwb0003,jwb0004,jwb0005"},
      {"x[1-2],y,z[08-10],n-5", "x1,x2,y,z08,z09,z10,n-5"},
      {"node-01-[1-2]", "node-01-1,node-01-2"},
      {"n1,n1,n2", "n1,n1,n2"},
      {"a,b a2\tc\nd", "a,b,a2,c,d"},
      {"n1-3", "n1-3"},
      {"rack[0-1]node[00-01]", "rack0node00,rack0node01,rack1node00,rack1node01"},
      {"a[1-2]b[3-4]c[5-6]", "a1b3c5,a1b3c6,a2b3c5,a2b3c6,a1b4c5,a1b4c6,a2b4c5,a2b4c6"},
      {"[1-3]", "1,2,3"},
      {"a[1-2][3-4]", "a13,a14,a23,a24"},
      {"", ""},
      {",", ""},
      {" a ,, b ", "a,b"},
      // Text after a bracket: Slurm since 23.11.
      {"n[1-3].x", "n1.x,n2.x,n3.x"},
      {"n[1,3-4]-hsn0", "n1-hsn0,n3-hsn0,n4-hsn0"},
  };
  for (const auto& [list, names] : vectors) {
    CAPTURE(list);
    CHECK(expanded(list) == names);
    CHECK(count_hostlist(list, "LIST") == expand_hostlist(list, "LIST").size());
  }
}

TEST_CASE("a malformed host list names its variable and the piece") {
  const std::vector<std::pair<std::string, std::string>> vectors{
      {"a,n[3-1]", "LIST is not a host list: range 3-1 runs backwards in \"n[3-1]\""},
      {"n[]", "LIST is not a host list: \"\" is not a number in \"n[]\""},
      {"n[a-c]", "LIST is not a host list: \"a\" is not a number in \"n[a-c]\""},
      {"n[1-]", "LIST is not a host list: \"\" is not a number in \"n[1-]\""},
      {"n[1-2-3]", "LIST is not a host list: \"2-3\" is not a number in \"n[1-2-3]\""},
      {"n[1, 2]", "LIST is not a host list: \" 2\" is not a number in \"n[1, 2]\""},
      {"n[0-65536]", "LIST is not a host list: range 0-65536 has more than 65536 hosts in \"n[0-65536]\""},
      {"b,n[1-3", "LIST is not a host list: a '[' without ']' in \"n[1-3\""},
      {"n1]", "LIST is not a host list: a ']' without '[' in \"n1]\""},
      {"n[1[2]]", "LIST is not a host list: a '[' inside brackets in \"n[1[2]]\""},
      {"(null)", "LIST is not a host list: '(' is not allowed in host names in \"(null)\""},
      {"n\x1b[31m", "LIST is not a host list: '\\x1b' is not allowed in host names in \"n\\x1b[31m\""},
      {"bgl[000x133]",
       "LIST is not a host list: multi-dimensional node lists are not supported: \"000x133\" in "
       "\"bgl[000x133]\""},
      {"n[0000000000000000001]",
       "LIST is not a host list: a number of more than 18 digits in \"n[0000000000000000001]\""},
  };
  for (const auto& [list, what] : vectors) {
    CAPTURE(list);
    CHECK(complaint(list) == what);
  }
  CHECK(complaint("a," + std::string(256, 'n')).find("a name of more than 255 bytes") != std::string::npos);
}

TEST_CASE("a host list has a limit however it is written") {
  CHECK(expand_hostlist("n[1-65536],m[1-65536]", "LIST").size() == k_max_hosts);
  for (const char* list : {"r[0-999]n[0-999]", "a[0-9999]b[0-9999]c[0-9999]d[0-9999]e[0-9999]f[0-9999]",
                           "a[0-65535],b[0-65535],c", "a[0-65535,0-65535,1]"}) {
    CAPTURE(list);
    CHECK(complaint(list).find("more than 131072 hosts") != std::string::npos);
  }
}

TEST_CASE("compressed lists are short and keep order and spelling") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> vectors{
      {{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n2", "n3"}, "n[1-3]"},
      {{"nid0012", "nid0013", "nid0014"}, "nid00[12-14]"},
      {{"n9", "n10", "n11"}, "n[9-11]"},
      {{"n09", "n10"}, "n[09-10]"},
      {{"n08", "n09"}, "n0[8-9]"},
      {{"n0", "n00"}, "n[0,00]"},
      {{"n1", "n3", "n4", "login"}, "n[1,3-4],login"},
      {{"a1", "b1", "a2"}, "a1,b1,a2"},
      {{"n2", "n1"}, "n[2,1]"},
      {{"n1", "n1"}, "n[1,1]"},
      {{"1", "2"}, "[1-2]"},
      {{"n1-ib", "n2-ib"}, "n1-ib,n2-ib"},
  };
  for (const auto& [hosts, list] : vectors) {
    CAPTURE(list);
    CHECK(compress_hostlist(hosts) == list);
  }
}

TEST_CASE("a compressed list expands to what it was made from") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  for (int round = 0; round < test::rounds(1000); ++round) {
    std::vector<std::string> hosts;
    for (unsigned i = below(8); i > 0; --i) {
      std::string name(1, static_cast<char>('a' + below(2)));
      if (below(4) == 0) name += "0-";
      for (unsigned digits = below(4); digits > 0; --digits) name += static_cast<char>('0' + below(3));
      hosts.push_back(name);
    }
    const std::string list = compress_hostlist(hosts);
    CAPTURE(list);
    REQUIRE(expand_hostlist(list, "LIST") == hosts);
  }
}
