#include "facts/program.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("the version of torch is read from its version.py") {
  CHECK(parse_torch_version(
            "from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '2.13.0+cpu'\n") ==
        "2.13.0+cpu");
  CHECK(parse_torch_version("__version__ = \"1.13.0a0\"\ndebug = False\n") == "1.13.0a0");
  CHECK_FALSE(parse_torch_version("debug = False\n"));
  CHECK_FALSE(parse_torch_version("__version__ = ''\n"));
  CHECK_FALSE(parse_torch_version("__version__ = 'a\x1b[31m'\n"));
  CHECK_FALSE(parse_torch_version("__version__ = '" + std::string(100, '1') + "'\n"));
}

TEST_CASE("an interpreter's name tells its version") {
  CHECK(parse_python_name("python3.11") == "3.11");
  CHECK_FALSE(parse_python_name("python3"));
  CHECK_FALSE(parse_python_name("python3.11-config"));
  CHECK_FALSE(parse_python_name("perl5.36"));
}

TEST_CASE("a virtual environment tells its version and whether it sees the system's packages") {
  const VirtualEnvironment own =
      parse_virtual_environment("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n");
  CHECK(own.version == "3.11");
  CHECK_FALSE(own.system_packages);
  const VirtualEnvironment uv =
      parse_virtual_environment("version_info = 3.12.7.final.0\ninclude-system-site-packages = True\n");
  CHECK(uv.version == "3.12");
  CHECK(uv.system_packages);
  CHECK(parse_virtual_environment("nonsense").version.empty());
}
