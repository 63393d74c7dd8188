#include "allocation/launchers/launcher_rows.hpp"

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::launcher_rows {

// hydra, the mpiexec of MPICH, and Intel MPI's derivative of it. Neither tells hosts, nodes or a name of the
// launch; the arguments of the proxy above each process name the host and port of mpiexec. Also what srun
// --mpi=pmi2 sets, told by PMI_JOBID.

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

// mpirun of Open MPI 4 (ORTE) and 5 (PRRTE with the same OMPI_COMM_WORLD_ names; the OMPI_MCA_orte_ ones are
// gone). OMPI_COMM_WORLD_NODE_RANK is a rank within the node and no number of a node. mpirun itself is the
// daemon of its own host, whose processes do not get OMPI_MCA_orte_node_regex.

namespace {

// Reads the numeric addresses of "483524608.0;tcp://10.77.0.1,192.168.7.1:49861;tcp6://[fd00::1]:49861".
std::vector<Sourced<std::string>> read_front_end(const Seen& seen) {
  std::vector<Sourced<std::string>> addresses;
  const auto uri = seen.variables.text("OMPI_MCA_orte_hnp_uri");
  if (!uri) return addresses;
  for (const std::string& piece : split(uri->value, ';')) {
    const std::size_t start = piece.find("://");
    const std::size_t port = piece.rfind(':');
    if (!piece.starts_with("tcp") || start == std::string::npos || port <= start + 2) continue;
    std::string list = piece.substr(start + 3, port - start - 3);
    std::erase_if(list, [](char c) { return c == '[' || c == ']'; });
    for (std::string& address : split(list, ',')) {
      if (is_address_text(address)) addresses.push_back(sourced(std::move(address), uri->origin));
    }
  }
  return addresses;
}

// Adds the job's id, and the host of PRRTE's server where nothing else has named one.
void add_namespace(const Seen& seen, LaunchPlace& place) {
  const auto id = seen.variables.text("PMIX_NAMESPACE");
  if (!id) return;
  place.id = *id;
  auto host = find_prrte_host(id->value);
  if (host && place.front_end.empty()) place.front_end.push_back(sourced(std::move(*host), id->origin));
}

}  // namespace

std::optional<LaunchPlace> read_open_mpi(const Seen& seen) {
  auto place = read_numbers(seen, "Open MPI",
                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "mpirun -n {0} --map-by ppr:1:node";
  place->nodes = read_number(seen, "OMPI_MCA_orte_num_nodes", 1);
  place->launcher_tells_hosts = seen.variables.has("OMPI_MCA_orte_hnp_uri");
  if (const auto list = seen.variables.text("OMPI_MCA_orte_node_regex")) {
    place->hosts = sourced(expand_node_regex(list->value, list->origin), list->origin);
  }
  place->front_end = read_front_end(seen);
  add_namespace(seen, *place);
  if (const auto secret = seen.variables.text("OMPI_MCA_orte_precondition_transports")) {
    place->secrets.push_back({SecretKind::open_mpi_transports, secret->value, secret->origin});
  }
  place->key_value_space = find_pmix(seen);
  return place;
}

// HPE MPT, formerly SGI's: mpiexec_mpt. MPT_LRANK is the rank on the host (LAMMPS, doc/src/Run_options.rst),
// PMI_RANK that of all (NCAR's launch_cf.sh, which DART keeps). A size is read where there is one; no source
// says that MPT gives it.

std::optional<LaunchPlace> read_mpt(const Seen& seen) {
  if (!seen.variables.has("MPT_LRANK")) return std::nullopt;
  auto place = read_numbers(seen, "HPE MPT", {"PMI_RANK", "PMI_SIZE", "MPT_LRANK", nullptr});
  if (place) place->one_a_node = "mpiexec_mpt -n {0} -ppn 1";
  return place;
}

// jsrun of LSF on CORAL systems (IBM Job Step Manager).

std::optional<LaunchPlace> read_jsrun(const Seen& seen) {
  auto place = read_numbers(
      seen, "jsrun",
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "jsrun -n {0} -r 1 -a 1 -c ALL_CPUS -g ALL_GPUS";
  if (const auto id = seen.variables.text("PMIX_NAMESPACE")) place->id = *id;
  place->key_value_space = find_pmix(seen);
  return place;
}

// MVAPICH2's mpirun_rsh, and hydra with programs of MVAPICH2. MVAPICH 3 has MPICH's names alone.

std::optional<LaunchPlace> read_mvapich2(const Seen& seen) {
  auto place = read_numbers(seen, "MVAPICH2",
                            {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                             "MV2_COMM_WORLD_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "mpiexec -n {0} -ppn 1";
  // mpirun_rsh's PMI_PORT speaks a dialect of its own; hydra's PMI_FD is plain PMI-1.
  if (seen.variables.has("PMI_FD")) place->key_value_space = KeyValueSpace::pmi1;
  add_hydra_host(seen, *place);
  return place;
}

// flux run: FLUX_TASK_RANK is set for tasks only, FLUX_URI alone for an instance's initial program
// (flux-core, src/shell).

std::optional<LaunchPlace> read_flux(const Seen& seen) {
  auto place = read_numbers(seen, "flux", {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr});
  if (!place) return place;
  place->one_a_node = "flux run -N{0} -n{0}";
  place->nodes = read_number(seen, "FLUX_JOB_NNODES", 1);
  place->nodes_exact = place->nodes.has_value();
  if (const auto id = seen.variables.text("FLUX_JOB_ID")) place->id = *id;
  place->key_value_space = find_pmi1(seen);
  return place;
}

// PALS, the mpiexec of HPE Cray systems, and Slurm's mpi/cray_shasta, which sets the same variables but for
// PALS_LOCAL_SIZE (mpi_cray_shasta.c). PMI_FD is not among them: there is no PMI-1 server to ask.

std::optional<LaunchPlace> read_pals(const Seen& seen) {
  const bool own = seen.variables.has("PALS_LOCAL_SIZE");
  auto place = read_numbers(
      seen, "PALS",
      {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", own ? "PALS_LOCAL_SIZE" : "PMI_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "mpiexec -n {0} --ppn 1";
  place->node = read_number(seen, "PALS_NODEID", 0);
  if (const auto id = seen.variables.text("PALS_APID")) place->id = *id;
  place->slurm_step = read_slurm_step(seen, "PALS_APID");
  if (const auto secret = seen.variables.text("PMI_SHARED_SECRET")) {
    place->secrets.push_back({SecretKind::pmi_shared_secret, secret->value, secret->origin});
  }
  place->key_value_space = find_pmix(seen);
  return place;
}

// A PMIx server without variables of its own beside: prterun and prun of PRRTE, a MoM of OpenPBS built with
// PMIx, and srun --mpi=pmix, told by its namespace. There is a rank and no size; ddprun asks the server for
// it and the other numbers and puts them into the environment by the names of PMIx' attributes.

std::optional<LaunchPlace> read_pmix(const Seen& seen) {
  const bool prrte = seen.variables.has("PRTE_LAUNCHED");
  auto place = read_numbers(seen, prrte ? "PRRTE" : "PMIx",
                            {"PMIX_RANK", "PMIX_JOB_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"});
  if (!place) return place;
  place->nodes = read_number(seen, "PMIX_NUM_NODES", 1);
  place->nodes_exact = place->nodes.has_value();
  place->one_a_node = "prterun -n {0} --map-by ppr:1:node";
  add_namespace(seen, *place);
  place->slurm_step = read_slurm_step(seen, "PMIX_NAMESPACE");
  place->key_value_space = find_pmix(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
