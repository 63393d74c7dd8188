#include "os/capture/capture.hpp"

#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"
#include "facts/program.hpp"
#include "os/libraries/munge.hpp"
#include "os/machine/capture_gpus.hpp"
#include "os/machine/capture_network.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/machine/capture_step.hpp"
#include "os/path_walk.hpp"
#include "os/process/become.hpp"
#include "os/process/child_call.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

// Variables that name a file with the hosts of a launch.
constexpr std::array<const char*, 8> k_file_variables{
    "SLURM_HOSTFILE",        "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
    "OAR_NODEFILE",          "PJM_O_NODEINF",     "OMPI_MCA_orte_default_hostfile",
    "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"};
constexpr std::size_t k_file_limit = 1 << 20;

// Files of a service that starts ddprun on its nodes, read where one of its variables is set
// (allocation/places): SageMaker's list of hosts, and the names that kubelet gave a pod.
struct NamedFile {
  const char* variable;
  const char* path;
};
constexpr std::array<NamedFile, 3> k_place_files{
    {{"TRAINING_JOB_NAME", "/opt/ml/input/config/resourceconfig.json"},
     {"SM_HOSTS", "/opt/ml/input/config/resourceconfig.json"},
     {"JOB_COMPLETION_INDEX", "/etc/hosts"}}};

facts::Environment capture_environment() {
  facts::Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    // The first of two entries of one name counts, as for getenv(3).
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> find_named_files(const facts::Snapshot& snapshot) {
  const std::string configuration = facts::find_pbs_configuration(snapshot.environment);
  const auto text = configuration.empty() ? std::nullopt : try_read_file(configuration, k_file_limit);
  std::vector<std::string> paths{configuration, facts::find_pbs_node_file(facts::with_pbs_home(
                                                    snapshot.environment, text.value_or("")))};
  for (const char* variable : k_file_variables)
    paths.push_back(facts::find_variable(snapshot, variable).value_or(""));
  for (const NamedFile& file : k_place_files) {
    if (facts::find_variable(snapshot, file.variable)) paths.emplace_back(file.path);
  }
  std::erase(paths, "");
  return paths;
}

std::string capture_working_directory() {
  char path[PATH_MAX] = {};
  return ::getcwd(path, sizeof path) == nullptr ? std::string() : std::string(path);
}

// Captures the Python beside this program, unless PATH leads to it as well: then its order counts.
void capture_own_python(facts::Snapshot& snapshot, const std::string& self) {
  const std::size_t slash = self.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  const std::string folder = self.substr(0, slash);
  const std::string path = ':' + facts::find_variable(snapshot, "PATH").value_or("") + ':';
  if (path.find(':' + folder + ':') != std::string::npos) return;
  const auto has = [&](const char* name) { return ::access((folder + "/../" + name).c_str(), R_OK) == 0; };
  if (!has("pyvenv.cfg") && !has("conda-meta")) return;
  const facts::ProgramFacts python = capture_program(folder + "/python", std::nullopt);
  if (python.kind == facts::ProgramKind::executable) snapshot.programs[facts::k_own_python] = python;
}

facts::HostFacts capture_host() {
  facts::HostFacts host;
  host.name = capture_host_name();
  host.uid = ::geteuid();
  host.pid = ::getpid();
  host.addresses = capture_addresses();
  host.allowed_cpus = capture_allowed_cpus();
  host.allowed_cores = capture_core_count(host.allowed_cpus);
  host.online_cpus = capture_online_cpus();
  host.cgroup = try_read_file("/proc/self/cgroup").value_or("");
  host.cpu_quota = capture_cpu_quota(facts::parse_cgroups(host.cgroup));
  host.gpus = capture_gpus();
  host.allowed_memory_nodes =
      facts::parse_allowed_memory_nodes(try_read_file("/proc/self/status").value_or(""))
          .value_or(std::vector<int>{});
  host.ephemeral_ports = capture_ephemeral_ports();
  host.munge = capture_munge_presence();
  host.ancestors = capture_ancestors();
  host.stdin_is_terminal = ::isatty(STDIN_FILENO) == 1;
  host.stdout_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  host.stderr_is_terminal = ::isatty(STDERR_FILENO) == 1;
  return host;
}

std::vector<std::string> list_json_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), facts::k_site_files_limit));
  return paths;
}

}  // namespace

std::vector<facts::Ancestor> capture_ancestors() {
  static constexpr std::size_t k_most = 64;
  std::vector<facts::Ancestor> ancestors;
  if (!sees_own_processes()) return ancestors;
  for (int pid = ::getppid(); pid > 0 && ancestors.size() < k_most;) {
    const std::string folder = fmt::format("/proc/{}", pid);
    const auto stat = try_read_file(folder + "/stat");
    if (!stat) break;
    ancestors.push_back({pid, facts::parse_title(read_head(folder + "/cmdline", 1000))});
    pid = facts::parse_parent_pid(*stat).value_or(0);
  }
  return ancestors;
}

std::map<std::string, std::string> capture_site_files(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> files;
  for (const std::string& folder : folders) {
    for (const std::string& path : list_json_files(folder)) {
      files[path] = try_read_file(path, facts::k_site_file_limit).value_or("");
    }
  }
  return files;
}

facts::Snapshot capture_snapshot(int argc, const char* const* argv) {
  facts::Snapshot snapshot;
  for (int i = 1; i < argc; ++i) snapshot.arguments.emplace_back(argv[i]);
  snapshot.working_directory = capture_working_directory();
  snapshot.environment = capture_environment();
  for (const std::string& path : find_named_files(snapshot)) {
    if (auto contents = try_read_file(path, k_file_limit)) snapshot.files[path] = std::move(*contents);
  }
  for (auto& [path, contents] : capture_site_files(facts::site_folders(snapshot.environment))) {
    snapshot.files[path] = std::move(contents);
  }
  for (const std::string& candidate : facts::python_candidates(snapshot.environment)) {
    snapshot.programs[candidate] = capture_program(candidate, facts::find_variable(snapshot, "PATH"));
  }
  if (argc > 0) capture_own_python(snapshot, argv[0]);
  snapshot.host = capture_host();
  snapshot.host.step = capture_step_options(snapshot);
  snapshot.unix_time = ::time(nullptr);
  return snapshot;
}

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
