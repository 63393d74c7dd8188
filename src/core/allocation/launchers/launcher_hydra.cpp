// hydra, the mpiexec of MPICH, and Intel MPI's derivative of it. Neither tells hosts, nodes or a name of the
// launch; the arguments of the proxy above each process name the host and port of mpiexec. Also what srun
// --mpi=pmi2 sets, told by PMI_JOBID.
#include <algorithm>

#include "allocation/launchers/launcher_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::launcher_rows {

namespace {

bool is_intel(const Seen& seen) {
  const auto& environment = seen.snapshot.environment;
  return std::any_of(environment.begin(), environment.end(), [](const auto& variable) {
    return variable.first.starts_with("I_MPI_") && variable.first != "I_MPI_ROOT";  // a module file's
  });
}

std::string word_after(const std::vector<std::string>& words, std::string_view option) {
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? std::string{} : *(found + 1);
}

// Refuses mpiexec -pmi-port, where the number of processes is known to hydra's server alone.
[[noreturn]] void refuse_port_only() {
  throw Error(
      "PMI_PORT and PMI_ID are set, but PMI_RANK and PMI_SIZE are not: mpiexec was called with -pmi-port, "
      "which does not pass on the number of processes",
      "leave -pmi-port out; or give --nnodes, --node-rank and --master-addr");
}

// Returns a step of another job, of which mpi/cray_shasta names the job alone; empty for this job's.
std::string read_other_job(const Seen& seen) {
  const auto pmi = seen.variables.text("PMI_JOBID");
  const auto job = seen.variables.text("SLURM_JOB_ID");
  const bool other = pmi && job && pmi->value != job->value && parse_integer(pmi->value).value_or(-1) >= 0;
  return other ? pmi->value + ".?" : std::string();
}

}  // namespace

void add_hydra_host(const Seen& seen, LaunchPlace& place) {
  for (const facts::Ancestor& ancestor : seen.snapshot.host.ancestors) {
    const std::vector<std::string> words = split_words(ancestor.title);
    if (words.empty() || words.front().find("proxy") == std::string::npos) continue;
    const std::string control = word_after(words, "--control-port");
    // Intel MPI's proxies form a tree: the upstream host is mpiexec's for those next to it only.
    const std::string host =
        control.empty() ? word_after(words, "--upstream-host") : control.substr(0, control.rfind(':'));
    if (host.empty() || host.size() > 253 || host.front() == '-') continue;
    place.front_end.push_back(sourced(host, "the arguments of " + words.front()));
    if (!control.empty()) place.id = sourced(control, "--control-port of " + words.front());
    return;
  }
}

std::optional<LaunchPlace> read_hydra(const Seen& seen) {
  const bool pals = seen.variables.has("PMI_LOCAL_SIZE");
  auto place = read_numbers(seen, is_intel(seen) ? "Intel MPI" : "hydra",
                            {"PMI_RANK", "PMI_SIZE", pals ? "PMI_LOCAL_RANK" : "MPI_LOCALRANKID",
                             pals ? "PMI_LOCAL_SIZE" : "MPI_LOCALNRANKS"});
  if (!place) {
    const bool covered = seen.variables.has("MV2_COMM_WORLD_RANK") || seen.variables.has("PMIX_RANK");
    if (!covered && seen.variables.has("PMI_PORT") && seen.variables.has("PMI_ID")) refuse_port_only();
    return place;
  }
  place->one_a_node = "mpiexec -n {0} -ppn 1";
  place->slurm_step = read_slurm_step(seen, "PMI_JOBID");
  if (place->slurm_step.empty()) place->slurm_step = read_other_job(seen);
  place->key_value_space = find_pmi1(seen);
  add_hydra_host(seen, *place);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
