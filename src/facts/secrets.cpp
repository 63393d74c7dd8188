#include "ddprun/facts/secrets.hpp"

#include <algorithm>
#include <array>

#include "ddprun/base/text.hpp"
#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

namespace {

constexpr auto k_captured_prefixes = std::to_array<std::string_view>(
    {// schedulers
     "SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PBS_", "LSB_", "LSF_", "FLUX_", "SGE_", "OAR_", "COBALT_",
     "PJM_", "CSM_",
     // MPI launchers and their libraries
     "PMI_", "PMI2_", "PMIX_", "PALS_", "OMPI_", "PRTE_", "ORTE_", "MV2_", "MPI_", "MPICH_", "MPIR_", "HYDI_",
     "HYDRA_", "I_MPI_", "JSM_", "PLE_", "FLIB_", "CRAY_", "FI_", "UCX_",
     // torch and its launcher
     "PET_", "TORCH", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "NCCL_", "RCCL_", "GLOO_", "AWS_BATCH_JOB_",
     // devices and threads
     "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "HSA_", "ZE_", "ZET_", "ONEAPI_", "GPU_", "OMP_", "GOMP_", "MKL_",
     "KMP_",
     // this program
     "DDPRUN_"});

constexpr auto k_captured_names = std::to_array<std::string_view>({
    "CONDA_PREFIX",  "ENVIRONMENT",   "HOME",
    "HOSTNAME",      "HWLOC_XMLFILE", "JOB_COMPLETION_INDEX",
    "JOB_ID",        "LANG",          "LC_ALL",
    "LOADEDMODULES", "LOGNAME",       "NCPUS",
    "NHOSTS",        "NSLOTS",        "PATH",
    "PE_HOSTFILE",   "PWD",           "PYTHONUNBUFFERED",
    "PYTHON_EXEC",   "RANK",          "SHELL",
    "TERM",          "TMPDIR",        "USER",
    "VIRTUAL_ENV",   "WORLD_SIZE",    "XDG_CONFIG_HOME",
});

constexpr auto k_secret_marks =
    std::to_array<std::string_view>({"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "COOKIE"});

// How the name of an option that takes a secret ends.
constexpr auto k_secret_endings =
    std::to_array<std::string_view>({"key", "token", "secret", "password", "passwd", "passphrase",
                                     "credential", "credentials", "cookie", "jwt"});

// Processes of schedulers and MPI launchers; their arguments say which step and host started us.
constexpr auto k_launcher_programs = std::to_array<std::string_view>({"slurmstepd:",
                                                                      "slurmd",
                                                                      "srun",
                                                                      "sbatch",
                                                                      "salloc",
                                                                      "mpiexec",
                                                                      "mpiexec.hydra",
                                                                      "mpirun",
                                                                      "orted",
                                                                      "prted",
                                                                      "prterun",
                                                                      "prun",
                                                                      "hydra_pmi_proxy",
                                                                      "hydra_bstrap_proxy",
                                                                      "pmi_proxy",
                                                                      "palsd",
                                                                      "pbs_mom",
                                                                      "pbsdsh",
                                                                      "pbs_attach",
                                                                      "pbs_tmrsh",
                                                                      "flux",
                                                                      "flux-broker",
                                                                      "flux-shell",
                                                                      "jsrun",
                                                                      "jsmd",
                                                                      "blaunch",
                                                                      "sshd:"});

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

// Whether a value given to `name` (an option with its dashes, a key or a shell variable) is a secret.
bool takes_secret(std::string_view name) {
  const std::string lower = to_lower(name);
  if (std::any_of(k_secret_endings.begin(), k_secret_endings.end(),
                  [&](std::string_view ending) { return lower.ends_with(ending); })) {
    return true;
  }
  const bool variable = !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '-' || c == '.';
  });
  return variable && is_secret_variable(name);
}

std::size_t end_of_value(std::string_view text, std::size_t start) {
  if (start < text.size() && (text[start] == '"' || text[start] == '\'')) {
    const std::size_t quote = text.find(text[start], start + 1);
    return quote == std::string_view::npos ? text.size() : quote + 1;
  }
  return std::min(text.find_first_of(" \t\r\n,;&\"'", start), text.size());
}

std::string mask_assignments(std::string_view text) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t equals = text.find('='); equals != std::string_view::npos; equals = text.find('=', done)) {
    std::size_t start = equals;
    while (start > done && is_name_character(text[start - 1])) --start;
    result += text.substr(done, equals + 1 - done);
    done = equals + 1;
    if (takes_secret(text.substr(start, equals - start))) {
      result += k_removed_secret;
      done = end_of_value(text, done);
    }
  }
  return result.append(text.substr(done));
}

// "redis://user:password@host/": what stands between the colon and the last @ of the authority.
std::string mask_url_passwords(std::string_view text) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t url = text.find("://"); url != std::string_view::npos; url = text.find("://", done)) {
    const std::size_t start = url + 3;
    const std::string_view authority =
        text.substr(start, std::min(text.find_first_of("/ \t\r\n\"'", start), text.size()) - start);
    const std::size_t at = authority.rfind('@');
    const std::size_t colon = authority.find(':');
    result += text.substr(done, start - done);
    done = start;
    if (at != std::string_view::npos && colon < at) {
      result.append(authority.substr(0, colon + 1)).append(k_removed_secret);
      done = start + at;
    }
  }
  return result.append(text.substr(done));
}

}  // namespace

bool is_captured_variable(std::string_view name) {
  return std::find(k_captured_names.begin(), k_captured_names.end(), name) != k_captured_names.end() ||
         std::any_of(k_captured_prefixes.begin(), k_captured_prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_secret_variable(std::string_view name) {
  if (name == "SLURM_JWT" || name == "OMPI_MCA_orte_precondition_transports") return true;
  const std::string upper = to_upper(name);
  return std::any_of(k_secret_marks.begin(), k_secret_marks.end(),
                     [&](std::string_view mark) { return upper.find(mark) != std::string::npos; });
}

std::string mask_text(std::string_view text) { return mask_url_passwords(mask_assignments(text)); }

std::vector<std::string> mask_words(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool value_of_secret = false;
  for (const std::string& word : words) {
    result.push_back(value_of_secret ? std::string(k_removed_secret) : mask_text(word));
    value_of_secret = !value_of_secret && word.starts_with("-") && word.find('=') == std::string::npos &&
                      takes_secret(word);
  }
  return result;
}

std::string mask_title(std::string_view title) {
  const std::vector<std::string> words = split_words(title);
  if (words.empty()) return {};
  const std::string program = words.front().substr(words.front().find_last_of('/') + 1);
  const bool launcher =
      std::find(k_launcher_programs.begin(), k_launcher_programs.end(), program) != k_launcher_programs.end();
  return launcher ? join(mask_words(words), " ") : mask_text(words.front());
}

Snapshot without_secrets(const Snapshot& snapshot, const std::vector<std::string>& more) {
  Snapshot result = snapshot;
  result.arguments = mask_words(snapshot.arguments);
  result.environment.clear();
  for (const auto& [name, value] : snapshot.environment) {
    const bool wanted = std::find(more.begin(), more.end(), name) != more.end();
    if (!wanted && !is_captured_variable(name)) continue;
    result.environment[name] = is_secret_variable(name) ? std::string(k_removed_secret) : mask_text(value);
  }
  for (Ancestor& ancestor : result.host.ancestors) ancestor.title = mask_title(ancestor.title);
  return result;
}

}  // namespace ddprun
