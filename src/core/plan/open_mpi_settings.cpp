#include "plan/open_mpi_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "allocation/detection/started.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::plan {

namespace {

constexpr std::chrono::seconds k_default_kill{1};
constexpr std::chrono::seconds k_own_end{5};  // for the last kill and the report

std::chrono::seconds kill_timeout(const facts::Snapshot& snapshot) {
  for (const char* name : {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"}) {
    const auto set = facts::find_variable(snapshot, name);
    if (const auto seconds = set ? parse_integer(*set) : std::nullopt) return std::chrono::seconds(*seconds);
  }
  return k_default_kill;
}

}  // namespace

std::optional<allocation::Notice> find_bound_agent(const NodeProposal& node,
                                                   const facts::Snapshot& snapshot) {
  const bool bound = facts::find_variable(snapshot, "OMPI_MCA_orte_bound_at_launch") == "1";
  const std::vector<int>& own = snapshot.host.allowed_cpus;
  const bool part = snapshot.host.topology && own.size() < facts::all_cpus(*snapshot.host.topology).size();
  if (!bound || !part || node.allocation.style.value != allocation::LaunchStyle::agent_per_node)
    return std::nullopt;
  return allocation::Notice{fmt::format("Open MPI bound ddprun on {} to CPU {}, and all its workers with it",
                                        node.host, facts::render_cpu_list(own)),
                            "add --bind-to none to the command line of mpirun"};
}

std::optional<allocation::Notice> find_early_kill(const facts::Snapshot& snapshot, Milliseconds grace) {
  // mpirun is not signalled where the ddprun that started it speaks to the agents itself.
  const bool by_mpirun = facts::find_variable(snapshot, "OMPI_COMM_WORLD_SIZE") &&
                         !facts::find_variable(snapshot, allocation::k_front_end_variable);
  const std::chrono::seconds kill = kill_timeout(snapshot);
  if (!by_mpirun || kill >= grace) return std::nullopt;
  return allocation::Notice{
      fmt::format(
          "Open MPI kills its processes {} after a stop signal, within the {} that workers have to save",
          describe_duration(kill), describe_duration(grace)),
      fmt::format("mpirun --mca odls_base_sigkill_timeout {}",
                  std::chrono::ceil<std::chrono::seconds>(grace).count() + k_own_end.count())};
}

}  // namespace ddprun::plan
