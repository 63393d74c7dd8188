#include "os/machine/capture_step.hpp"

#include <filesystem>

#include "catch.hpp"
#include "fake_root.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

const std::string k_torch = "__version__ = '2.13.0+cpu'\n";

facts::PythonFacts captured(const FakeRoot& root, const std::string& interpreter,
                            const facts::Environment& environment = {}) {
  return capture_python(root.path() + interpreter, environment);
}

void add_interpreter(const FakeRoot& root) {
  root.add("/usr/bin/python3.11");
  std::filesystem::create_symlink("python3.11", root.path() + "/usr/bin/python3");
}

}  // namespace

TEST_CASE("a virtual environment has its own torch and no other") {
  const FakeRoot root;
  add_interpreter(root);
  root.add("/venv/pyvenv.cfg", "version = 3.11.2\ninclude-system-site-packages = false\n");
  std::filesystem::create_directories(root.path() + "/venv/bin");
  std::filesystem::create_symlink(root.path() + "/usr/bin/python3", root.path() + "/venv/bin/python3");
  root.add("/usr/lib/python3/dist-packages/torch/version.py", "__version__ = '1.13.0a0'\n");
  CHECK(captured(root, "/venv/bin/python3") == facts::PythonFacts{"3.11", ""});
  root.add("/venv/lib/python3.11/site-packages/torch/version.py", k_torch);
  CHECK(captured(root, "/venv/bin/python3") == facts::PythonFacts{"3.11", "2.13.0+cpu"});
}

TEST_CASE("the system's torch is found, the user's before it, and PYTHONPATH before both") {
  const FakeRoot root;
  add_interpreter(root);
  root.add("/usr/lib/python3/dist-packages/torch/version.py", "__version__ = '1.13.0a0'\n");
  CHECK(captured(root, "/usr/bin/python3") == facts::PythonFacts{"3.11", "1.13.0a0"});
  root.add("/home/u/.local/lib/python3.11/site-packages/torch/version.py", k_torch);
  const facts::Environment home{{"HOME", root.path() + "/home/u"}};
  CHECK(captured(root, "/usr/bin/python3", home).torch == "2.13.0+cpu");
  root.add("/overlay/torch/version.py", "__version__ = '2.9.1'\n");
  CHECK(captured(root, "/usr/bin/python3", {{"PYTHONPATH", "/nowhere:" + root.path() + "/overlay"}}).torch ==
        "2.9.1");
}

TEST_CASE("where nothing tells the version nothing is claimed") {
  const FakeRoot root;
  root.add("/opt/bin/python");
  CHECK(captured(root, "/opt/bin/python") == facts::PythonFacts{});
  CHECK(capture_python("python3", {}) == facts::PythonFacts{});
}
