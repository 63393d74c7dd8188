#include "os/capture/capture.hpp"

#include <sys/stat.h>

#include <fstream>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  ::chmod(path.c_str(), 0755);
}

}  // namespace

TEST_CASE("remote launchers are found on PATH, and mpiexec is asked which one it is") {
  const TempDir folder(std::nullopt);
  write_program(folder.path() + "/srun", "exit 1");
  write_program(folder.path() + "/mpiexec", "echo some mpiexec; echo and more >&2");
  facts::Snapshot snapshot;
  snapshot.environment["PATH"] = folder.path();
  capture_remote_launchers(snapshot, {"srun", "mpiexec", "pbsdsh"});
  CHECK(snapshot.programs.at("srun") ==
        facts::ProgramFacts{facts::ProgramKind::executable, folder.path() + "/srun", {}});
  CHECK(snapshot.programs.at("mpiexec").version == "some mpiexec\nand more\n");
  CHECK(snapshot.programs.at("pbsdsh").kind == facts::ProgramKind::missing);
  CHECK(snapshot.programs.at("ddprun").path.find("process_tests") != std::string::npos);
}

TEST_CASE("Open MPI's launch modules are asked for beside its mpiexec") {
  const TempDir folder(std::nullopt);
  write_program(folder.path() + "/mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'");
  write_program(
      folder.path() + "/ompi_info",
      "echo '                 MCA plm: tm (MCA v2.1.0)'; echo '                 MCA ras: tm (MCA v2.1.0)'");
  facts::Snapshot snapshot;
  snapshot.environment["PATH"] = folder.path();
  capture_remote_launchers(snapshot, {"mpiexec"});
  CHECK(snapshot.programs.at("mpiexec").version == "mpiexec (OpenRTE) 4.1.4\nMCA plm: tm (MCA v2.1.0)\n");
}
