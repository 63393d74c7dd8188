#include "staging/rewrite.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::staging;

namespace {

const std::vector<Mapping> k_mappings{{{"/shared/venv", "/gpfs/u/venv"}, "/tmp/s/venv"},
                                      {{"/shared/python"}, "/tmp/s/python"},
                                      {{"/shared/venv/big"}, "/tmp/s/big"}};

Entry file(const std::string& path, std::uint64_t size = 100) {
  return {path, Kind::file, 0755, size, 0, 0, {}};
}

std::string linked(const std::string& path, const std::string& target) {
  return map_link({"/shared/venv", "/gpfs/u/venv", {}}, {path, Kind::symbolic_link, 0777, 0, 0, 0, target},
                  k_mappings);
}

}  // namespace

TEST_CASE("paths of a source, in each of its spellings, lead to the copy") {
  CHECK(map_path("/shared/venv/bin/python", k_mappings) == "/tmp/s/venv/bin/python");
  CHECK(map_path("/gpfs/u/venv", k_mappings) == "/tmp/s/venv");
  CHECK(map_path("/shared/venv2/bin", k_mappings) == "/shared/venv2/bin");
  CHECK(map_path("/mnt/shared/venv", k_mappings) == "/mnt/shared/venv");
  CHECK(map_path("/shared/venv/big/a", k_mappings) == "/tmp/s/big/a");
  CHECK(map_path_list("/shared/venv/bin:/usr/bin::/gpfs/u/venv", k_mappings) ==
        "/tmp/s/venv/bin:/usr/bin::/tmp/s/venv");
  CHECK(map_path_list("", k_mappings).empty());
}

TEST_CASE("texts name a path where nothing goes on") {
  CHECK(map_text("#!/shared/venv/bin/python3\nimport x", k_mappings) ==
        "#!/tmp/s/venv/bin/python3\nimport x");
  CHECK(map_text("VIRTUAL_ENV=\"/shared/venv\"\nold=/shared/venv-old /shared/venv.bak /mnt/shared/venv",
                 k_mappings) ==
        "VIRTUAL_ENV=\"/tmp/s/venv\"\nold=/shared/venv-old /shared/venv.bak /mnt/shared/venv");
  CHECK(map_text("home = /shared/python/bin", k_mappings) == "home = /tmp/s/python/bin");
  CHECK(map_text("a=/shared/venv/big:/shared/venv/bigger", k_mappings) == "a=/tmp/s/big:/tmp/s/venv/bigger");
  CHECK(map_text("", k_mappings).empty());
}

TEST_CASE("the files that name their own place are scripts and settings") {
  for (const char* path : {"pyvenv.cfg", "bin/pip", "bin/activate", "lib/python3.11/site-packages/x.pth"})
    CHECK(may_name_source(file(path)));
  for (const char* path :
       {"lib/python3.11/site-packages/x.py", "bin/sub/pip", "lib/x.pth", "sub/pyvenv.cfg", ""})
    CHECK_FALSE(may_name_source(file(path)));
  CHECK_FALSE(may_name_source(file("bin/python3.11", 5U << 20U)));
  CHECK(is_script(file("bin/pip"), "#!/shared"));
  CHECK(is_script(file("bin/activate.fish"), "set x"));
  CHECK_FALSE(is_script(file("bin/ninja"),
                        "\x7f"
                        "ELF"));
  CHECK(is_script(file("pyvenv.cfg"), "home"));
}

TEST_CASE("links keep what they mean") {
  CHECK(linked("lib64", "lib") == "lib");
  CHECK(linked("bin/python3", "python") == "python");
  CHECK(linked("bin/python", "/usr/bin/python3") == "/usr/bin/python3");
  CHECK(linked("bin/python", "/shared/python/bin/python3") == "/tmp/s/python/bin/python3");
  CHECK(linked("bin/x", "/shared/venv/lib/x") == "/tmp/s/venv/lib/x");
  CHECK(linked("bin/x", "../../other/x") == "/gpfs/u/other/x");
  CHECK(linked("bin/x", "../../../../shared/python/x") == "/tmp/s/python/x");
  CHECK(linked("a/b/x", "../../lib/y") == "../../lib/y");
}

TEST_CASE("a path is made plain as far as its text tells") {
  CHECK(plain_path("/a//b/./c/../d/") == "/a/b/d");
  CHECK(plain_path("/../..") == "/");
}
