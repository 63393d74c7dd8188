#include "facts/secrets.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::facts {

namespace {

constexpr auto k_captured_prefixes = std::to_array<std::string_view>(
    {// schedulers
     "SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PBS_", "LSB_", "LSF_", "FLUX_", "SGE_", "OAR_", "COBALT_",
     "PJM_", "CSM_",
     // MPI launchers and their libraries
     "PMI_", "PMI2_", "PMIX_", "PALS_", "OMPI_", "PRTE_", "ORTE_", "MV2_", "MPI_", "MPT_", "MPICH_", "MPIR_",
     "HYDI_", "HYDRA_", "I_MPI_", "JSM_", "PLE_", "FLIB_", "CRAY_", "FI_", "UCX_",
     // services that start one ddprun a node
     "SKYPILOT_", "DSTACK_", "SM_", "AZUREML_", "AZ_", "CLOUD_ML_", "MLP_", "ARNOLD_", "VC_", "MA_",
     "LEPTON_", "BEAKER_", "LWS_", "RUNAI_", "K_MPI_", "_CONDOR_",
     // torch and its launcher
     "PET_", "TORCH", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "NCCL_", "RCCL_", "GLOO_", "AWS_BATCH_JOB_",
     // devices and threads
     "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "HSA_", "ZE_", "ZET_", "ONEAPI_", "GPU_", "OMP_", "GOMP_", "MKL_",
     "KMP_",
     // this program
     "DDPRUN_"});

constexpr auto k_captured_names = std::to_array<std::string_view>({
    "APPTAINER_CONTAINER",
    "CH_RUNNING",
    "CLUSTER_SPEC",
    "CONDA_PREFIX",
    "ENVIRONMENT",
    "GPUS_PER_NODE",
    "HOME",
    "HOSTNAME",
    "HWLOC_XMLFILE",
    "JAX_COORDINATOR_ADDRESS",
    "JOB_COMPLETION_INDEX",
    "JOB_ID",
    "KUBERNETES_SERVICE_HOST",
    "LANG",
    "LC_ALL",
    "LOADEDMODULES",
    "LOGNAME",
    "NCPUS",
    "NGPUS",
    "NHOSTS",
    "NNODES",
    "NODE_COUNT",
    "NODE_NUM",
    "NODE_RANK",
    "NPROC_PER_NODE",
    "NSLOTS",
    "NUM_NODES",
    "NUM_TRAINERS",
    "PATH",
    "PE_HOSTFILE",
    "PWD",
    "PYTHONUNBUFFERED",
    "PYTHON_EXEC",
    "PYTORCH_VERSION",
    "RANK",
    "RAY_JOB_ID",
    "RESTARTED",
    "SHELL",
    "SINGULARITY_CONTAINER",
    "TERM",
    "TMPDIR",
    "TRAINING_JOB_ARN",
    "TRAINING_JOB_NAME",
    "USER",
    "VIRTUAL_ENV",
    "VK_TASK_INDEX",
    "WORLD_SIZE",
    "XDG_CONFIG_HOME",
    "container",
});

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
                                                                      "sge_shepherd",
                                                                      "qrsh",
                                                                      "oarsh",
                                                                      "pjrsh",
                                                                      "sshd:",
                                                                      "mpiexec_mpt",
                                                                      "arrayd"});

const std::string k_nothing;

// -H Authorization: Basic VALUE, without quotes
bool is_scheme(const std::string& word) {
  const std::string lower = to_lower(word);
  return lower == "basic" || lower == "bearer" || lower == "token" || lower == "digest";
}

bool takes_secret(const std::string& word, std::string_view also) {
  if (word.ends_with(':')) return is_secret_header(std::string_view(word).substr(0, word.size() - 1));
  return word.starts_with("-") && word.find('=') == std::string::npos &&
         (word == also || is_secret_option(word));
}

// Reports whether it is mpiexec -genv NAME VALUE.
bool gives_variable(std::string_view option, std::string_view name) {
  return (option == "-genv" || option == "-env") && is_secret_variable(name);
}

// Reports whether the name and the password follow it, user:password.
bool is_user_option(std::string_view word) {
  return word == "-u" || word == "--user" || word == "--proxy-user";
}

}  // namespace

bool is_captured_variable(std::string_view name) {
  return std::ranges::find(k_captured_names, name) != k_captured_names.end() ||
         std::ranges::any_of(k_captured_prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> mask_words(const std::vector<std::string>& words, std::string_view also) {
  std::vector<std::string> result;
  bool value_of_secret = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    result.push_back(value_of_secret ? std::string(k_removed_secret) : mask_text(word));
    const std::string& before = i == 0 ? k_nothing : words[i - 1];
    value_of_secret =
        value_of_secret
            ? before.ends_with(':') && is_scheme(word)
            : (takes_secret(word, also) || gives_variable(before, word) ||
               (is_user_option(word) && i + 1 < words.size() && words[i + 1].find(':') != std::string::npos));
  }
  return result;
}

namespace {

// Replaces the secrets among our own arguments at the end of a launcher's title, where -p is no partition.
std::string without_own_secrets(std::string_view title, const std::vector<std::string>& arguments,
                                const std::vector<std::string>& masked) {
  std::vector<std::string> words = split_words(title);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (masked[i] != k_removed_secret) continue;
    const auto last = std::find(words.rbegin(), words.rend(), arguments[i]);
    if (last != words.rend()) *last = k_removed_secret;
  }
  return join(words, " ");
}

}  // namespace

std::string mask_title(std::string_view title) {
  const std::vector<std::string> words = split_words(title);
  if (words.empty()) return {};
  const std::string program = words.front().substr(words.front().find_last_of('/') + 1);
  const bool launcher = std::ranges::find(k_launcher_programs, program) != k_launcher_programs.end();
  // Words may have had blanks in them: mask once more as a whole.
  return mask_text(launcher ? join(mask_words(words), " ") : words.front());
}

Snapshot without_secrets(const Snapshot& snapshot, const std::vector<std::string>& more) {
  Snapshot result = snapshot;
  result.arguments = mask_words(snapshot.arguments, "-p");
  if (result.arguments != snapshot.arguments) result.removed_secrets.emplace_back("arguments");
  result.environment.clear();
  for (const auto& [name, value] : snapshot.environment) {
    const bool wanted = std::ranges::find(more, name) != more.end();
    if (!wanted && !is_captured_variable(name)) continue;
    std::string& kept = result.environment[name];
    kept = is_secret_variable(name) ? std::string(k_removed_secret) : mask_text(value);
    if (kept != value) result.removed_secrets.push_back(name);
  }
  for (auto& [path, text] : result.files) text = mask_text(text);
  for (Ancestor& ancestor : result.host.ancestors) {
    ancestor.title = mask_title(without_own_secrets(ancestor.title, snapshot.arguments, result.arguments));
  }
  return result;
}

// Names that mark their value as a secret.

namespace {

// Anywhere in a variable's name.
constexpr auto k_marks = std::to_array<std::string_view>(
    {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE", "BEARER", "JWT",
     "AUTHORIZATION", "COMMENT"});  // sbatch --comment

// Last words of the names of such options and fields.
constexpr auto k_endings = std::to_array<std::string_view>(
    {"key", "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "cookie",
     "jwt", "bearer", "authorization", "comment"});

// Too short to be looked for inside a word: they are the last part of a name, as in DB_PASS and --gh-pat.
constexpr auto k_last_parts = std::to_array<std::string_view>(
    {"pass", "auth", "pat", "pwd", "pw", "sig", "signature", "cred", "creds", "psk", "passcode", "dsn"});

// Anywhere among the parts of a name, as in --secret-access, unless it is a file's.
constexpr auto k_strong_parts = std::to_array<std::string_view>(
    {"secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials"});
constexpr auto k_file_parts = std::to_array<std::string_view>({"file", "path", "dir", "folder", "name"});

// Behind one of k_endings, as in --token-file-content.
constexpr auto k_value_parts =
    std::to_array<std::string_view>({"content", "contents", "value", "string", "text", "access"});

// Words of their own that end as a password's name does.
constexpr auto k_no_passwords = std::to_array<std::string_view>({"bypass", "compass", "overpass"});

// Headers of HTTP requests that contain secrets.
constexpr auto k_secret_headers = std::to_array<std::string_view>(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-auth-key",
     "private-token", "job-token", "x-goog-api-key", "x-vault-token", "x-amz-security-token"});

// The shell's directories.
constexpr auto k_harmless = std::to_array<std::string_view>({"PWD", "OLDPWD"});

template <typename List>
bool is_any(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool ends_in_short_word(std::string_view lower) {
  return is_any(k_last_parts, lower.substr(lower.find_last_of("_-.") + 1));
}

bool ends_in_any(const auto& list, std::string_view name) {
  return std::ranges::any_of(list, [&](std::string_view ending) { return name.ends_with(ending); });
}

// DBPASS, MYSQLPWD
bool ends_in_password(std::string_view lower) {
  return (lower.ends_with("pass") && !ends_in_any(k_no_passwords, lower)) ||
         (lower.ends_with("pwd") && !is_any(k_harmless, to_upper(lower)));
}

bool names_value_of_secret(const std::string& lower) {
  std::string text = lower;
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == '.'; }, '-');
  const std::vector<std::string> parts = split(text, '-');
  if (is_any(k_value_parts, parts.back())) {
    return std::ranges::any_of(parts, [](const std::string& part) { return ends_in_any(k_endings, part); });
  }
  return !is_any(k_file_parts, parts.back()) &&
         std::ranges::any_of(parts, [](const std::string& part) { return is_any(k_strong_parts, part); });
}

bool is_variable(std::string_view name) {
  return !name.empty() &&
         std::ranges::none_of(name, [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '.'; });
}

}  // namespace

bool is_secret_variable(std::string_view name) {
  if (is_any(k_harmless, name)) return false;
  if (name == "OMPI_MCA_orte_precondition_transports") return true;
  const std::string upper = to_upper(name);
  return std::ranges::any_of(k_marks,
                             [&](std::string_view mark) { return upper.find(mark) != std::string::npos; }) ||
         ends_in_short_word(to_lower(name)) || ends_in_password(to_lower(name));
}

bool is_secret_option(std::string_view name) {
  if (is_variable(name)) return is_secret_variable(name);
  const std::string lower = to_lower(name);
  return ends_in_short_word(lower) || ends_in_password(lower) || names_value_of_secret(lower) ||
         ends_in_any(k_endings, lower);
}

bool is_secret_header(std::string_view name) { return is_any(k_secret_headers, to_lower(name)); }

}  // namespace ddprun::facts
