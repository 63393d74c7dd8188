// mpirun of Open MPI 4 (ORTE) and 5 (PRRTE with the same OMPI_COMM_WORLD_ names; the OMPI_MCA_orte_ ones are
// gone). OMPI_COMM_WORLD_NODE_RANK is a rank within the node and no number of a node. mpirun itself is the
// daemon of its own host, whose processes do not get OMPI_MCA_orte_node_regex.
#include "allocation/hostlist.hpp"
#include "allocation/launchers/launcher_rows.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::launcher_rows {

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
  if (const auto id = seen.variables.text("PMIX_NAMESPACE")) {
    place->id = *id;
    if (auto host = find_prrte_host(id->value); host && place->front_end.empty()) {
      place->front_end.push_back(sourced(std::move(*host), id->origin));
    }
  }
  if (const auto secret = seen.variables.text("OMPI_MCA_orte_precondition_transports")) {
    place->secrets.push_back({SecretKind::open_mpi_transports, secret->value, secret->origin});
  }
  place->key_value_space = find_pmix(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
