#include <algorithm>

#include "base/text.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::rendezvous {

namespace {

using Workers = std::vector<plan::LocalPeerWorker>;

// Returns each worker's device, then the addresses of its GPUs. None at all if no device is known: most
// agents have none to send, and 128 of them may be on a host.
std::vector<std::vector<std::string>> device_rows(const Workers& workers) {
  std::vector<std::vector<std::string>> rows;
  bool known = false;
  for (const plan::LocalPeerWorker& worker : workers) {
    std::vector<std::string>& row = rows.emplace_back(1, worker.device);
    row.insert(row.end(), worker.gpus.begin(), worker.gpus.end());
    known = known || row.size() > 1 || !worker.device.empty();
  }
  return known ? rows : decltype(rows){};
}

// Describes the devices of the workers that were read before.
void describe_devices(Fields& fields, Workers& workers) {
  auto rows = device_rows(workers);
  if (!fields.has("devices", !rows.empty())) return;
  fields.text_rows("devices", rows, workers.size(), k_max_worker_gpus + 1);
  fields.drop_longer("devices", k_max_devices);
  for (std::size_t i = 0; fields.good() && i < workers.size(); ++i) {
    workers[i].device = std::move(rows[i].front());
    workers[i].gpus.assign(std::next(rows[i].begin()), rows[i].end());
  }
}

void describe_local_workers(Fields& fields, Workers& workers) {
  if (!fields.has("local_workers", !workers.empty())) return;
  std::size_t count = std::min(workers.size(), std::size_t{options::k_max_workers});
  fields.value("local_workers", count, 0, options::k_max_workers);
  workers.resize(count);
  describe_devices(fields, workers);
}

struct LocalPeerRow {
  int first_local_rank = 0;
  int same_cpus = 0;
  int workers = 0;
};

// Describes all agents of a host or none: a part of them would be taken for the whole.
void describe_local_peers(Fields& fields, std::vector<plan::LocalPeer>& local_peers) {
  std::vector<LocalPeerRow> rows;
  Workers all;
  for (const plan::LocalPeer& peer : local_peers) {
    rows.push_back(
        {peer.first_local_rank.value, peer.same_cpus ? 1 : 0, static_cast<int>(peer.workers.size())});
    all.insert(all.end(), peer.workers.begin(), peer.workers.end());
  }
  const bool fits = std::max(rows.size(), all.size()) <= options::k_max_workers;
  if (!fields.has("local_peers", fits && !rows.empty())) return;
  fields.rows("local_peers", rows, options::k_max_workers, [](LocalPeerRow& row) {
    return std::vector{&row.first_local_rank, &row.same_cpus, &row.workers};
  });
  std::size_t workers = 0;
  for (const LocalPeerRow& row : rows) workers += static_cast<std::size_t>(row.workers);
  if (!fields.check(workers <= options::k_max_workers, "local_peers", "have too many workers")) return;
  all.resize(workers);
  describe_devices(fields, all);
  local_peers.clear();
  auto next = all.begin();
  for (const LocalPeerRow& row : rows) {
    local_peers.push_back({{row.first_local_rank}, row.same_cpus != 0, {next, next + row.workers}});
    next += row.workers;
  }
}

void check_places(Fields& fields, const plan::Assignment& assignment) {
  const auto fits = [&](const plan::RankAssignment& assigned) {
    return assigned.rank.value < assignment.world_size &&
           assigned.local_rank.value < assignment.local_world_size &&
           assigned.role_rank < assigned.role_world_size && assigned.role_world_size <= assignment.world_size;
  };
  fields.check(std::ranges::all_of(assignment.workers, fits), "workers",
               "has a rank that is not below its world size");
  fields.check(!assignment.workers.empty(), "workers", "is empty");
  fields.check(assignment.node.value < assignment.node_count, "node", "is not below \"node_count\"");
}

// Describes each place as its port and its addresses, separated by blanks.
void describe_store_places(Fields& fields, std::vector<plan::StorePlace>& places) {
  std::vector<std::string> texts;
  for (const plan::StorePlace& place : places)
    texts.push_back(std::to_string(place.port) + ' ' + join(place.addresses, " "));
  if (!fields.has("store_places", !texts.empty())) return;
  fields.value("store_places", texts, k_max_store_places);
  places.clear();
  for (const std::string& text : texts) {
    std::vector<std::string> words = split(text, ' ');
    const auto port = parse_integer(words.front());
    const bool valid = port && *port > 0 && *port <= k_highest_port && words.size() <= k_max_addresses + 1;
    if (!fields.check(valid, "store_places", "has an invalid place")) return;
    words.erase(words.begin());
    places.push_back({std::move(words), static_cast<int>(*port)});
  }
}

}  // namespace

void describe_announcement(Fields& fields, plan::Announcement& announcement) {
  fields.optional("agent", announcement.agent);
  fields.value("host", announcement.host);
  fields.optional("node", announcement.node);
  fields.optional("launcher_rank", announcement.launcher_rank);
  fields.value("style_assumed", announcement.style_assumed);
  fields.value("workers", announcement.workers, 1, options::k_max_workers);
  fields.value("first_local_rank", announcement.first_local_rank);
  fields.value("role", announcement.role);
  fields.value("max_restarts", announcement.max_restarts);
  fields.value("addresses", announcement.addresses, k_max_addresses);
  fields.value("store_ports", announcement.store_ports, k_max_store_ports, 1, k_highest_port,
               "has an invalid port");
  fields.optional("fixed_rank", announcement.fixed_rank);
  fields.optional("python", announcement.python.version);
  fields.optional("torch", announcement.python.torch);
  fields.optional("cpus", announcement.cpus);
  fields.optional("counted", announcement.counted);
  fields.optional("for_tasks", announcement.for_tasks);
  fields.optional("asked_tasks", announcement.asked_tasks);
  fields.optional("missing_gpus", announcement.missing_gpus);
  describe_local_workers(fields, announcement.local_workers);
  fields.optional("host_timeout", announcement.host_timeout, 1);
  fields.optional("stage_door", announcement.stage_door);
  fields.optional("checkpoint_door", announcement.checkpoint_door);
  fields.optional("successor_port", announcement.successor_port, 1, k_highest_port);
  fields.optional("pid", announcement.pid, 1);
  fields.optional("relay_port", announcement.relay_port, 1, k_highest_port);
  fields.optional("network_position", announcement.network.position);
  fields.optional("switches", announcement.network.switches);
  fields.optional("nvlink_domain", announcement.network.domain);
}

void describe_assignment(Fields& fields, plan::Assignment& assignment) {
  fields.value("attempt", assignment.attempt);
  fields.value("world_size", assignment.world_size);
  fields.value("local_world_size", assignment.local_world_size);
  fields.value("node", assignment.node);
  fields.value("node_count", assignment.node_count);
  fields.value("address", assignment.master_address);
  fields.value("port", assignment.master_port, 0, k_highest_port);
  fields.value("agent_per_task", assignment.agent_per_task);
  fields.optional("several_workers", assignment.several_workers);
  fields.optional("workers_of_nodes", assignment.workers_of_nodes);
  fields.optional("run_id", assignment.run_id);
  fields.optional("launch_id", assignment.launch_id);
  fields.rows("workers", assignment.workers, options::k_max_workers, [](plan::RankAssignment& assigned) {
    return std::vector{&assigned.rank.value, &assigned.local_rank.value, &assigned.role_rank,
                       &assigned.role_world_size};
  });
  describe_local_peers(fields, assignment.local_peers);
  describe_store_places(fields, assignment.store_places);
  check_places(fields, assignment);
}

}  // namespace ddprun::rendezvous
