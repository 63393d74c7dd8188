#include "command_line/help.hpp"

#include "catch.hpp"
#include "version_number.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

TEST_CASE("--version names each optional library with its file, or that it was not found") {
  const std::string text =
      render_version({{"libslurm", "/opt/slurm/lib/libslurm.so.42"}, {"PMIx", ""}}, "2.9.0");
  CHECK(text.starts_with("ddprun " DDPRUN_VERSION));
  CHECK(text.find("\nhwloc     2.9.0, built in\n") != std::string::npos);
  CHECK(text.find("\nlibslurm  /opt/slurm/lib/libslurm.so.42\n") != std::string::npos);
  CHECK(text.ends_with("\nPMIx      not found\n"));
}

TEST_CASE("the optional libraries are the five that are loaded, and a file that is named exists") {
  const auto libraries = os::find_optional_libraries();
  REQUIRE(libraries.size() == 5);
  for (const os::OptionalLibrary& library : libraries) {
    INFO(library.name << " " << library.file);
    CHECK((library.file.empty() || library.file.starts_with("/")));
  }
  CHECK(os::hwloc_version().starts_with("2."));
}
