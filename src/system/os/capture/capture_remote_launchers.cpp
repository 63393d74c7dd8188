#include "os/capture/capture_remote_launchers.hpp"

#include "base/duration.hpp"
#include "base/text.hpp"
#include "os/find_program.hpp"
#include "os/process/ask_program.hpp"
#include "os/process/become.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_answer_limit{3000};

// Open MPI tells its launch modules, of which "tm" is PBS', through a program beside mpiexec.
std::string ask_open_mpi(const std::string& mpiexec) {
  const std::string folder = mpiexec.substr(0, mpiexec.rfind('/') + 1);
  std::string modules;
  for (const std::string& line : split(ask_program({folder + "ompi_info"}, k_answer_limit), '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with("MCA plm:")) modules.append(text).push_back('\n');
  }
  return modules;
}

}  // namespace

void capture_remote_launchers(facts::Snapshot& snapshot, const std::vector<std::string>& names) {
  snapshot.programs["ddprun"] = {facts::ProgramKind::executable, capture_own_file(), {}};
  const auto path = facts::find_variable(snapshot, "PATH");
  for (const std::string& name : names) {
    facts::ProgramFacts facts = capture_program(name, path);
    if (name == "mpiexec" && facts.kind == facts::ProgramKind::executable) {
      facts.version = ask_program({facts.path, "--version"}, k_answer_limit);
      if (facts.version.find("OpenRTE") != std::string::npos) facts.version += ask_open_mpi(facts.path);
    }
    snapshot.programs[name] = std::move(facts);
  }
}

}  // namespace ddprun::os
