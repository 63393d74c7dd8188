#include "rendezvous/message_fields.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator_address.hpp"

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

namespace {

constexpr int k_highest_errno = 4095;

// Lowest and highest value of each kind of end. A number that a process cannot end with would become another
// exit code of ddprun, 0 among them.
constexpr std::array<std::array<int, 2>, 4> k_status_values{
    {{0, k_highest_exit_code}, {1, k_highest_signal}, {0, k_highest_errno}, {0, 0}}};

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Returns the end of a text: that of a traceback matters most, as the exception stands there. From a line's
// begin on if one is near, else from a character's.
std::string_view end_of(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  text.remove_prefix(text.size() - limit);
  if (const auto line = text.substr(0, k_max_text).find('\n'); line != std::string_view::npos) {
    return text.substr(line + 1);
  }
  while (!text.empty() && continues_character(text.front())) text.remove_prefix(1);
  return text;
}

void cut_failure(report::Failure& failure, std::size_t text_limit, std::size_t line_limit) {
  const std::size_t whole = failure.message.size();
  failure.message = std::string(end_of(failure.message, text_limit));
  failure.message_cut += whole - failure.message.size();
  // The last lines matter most.
  auto& lines = failure.last_lines;
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), line_limit)));
}

void describe_status(Fields& fields, ExitStatus& status) {
  fields.value("kind", status.kind, ExitStatus::Kind::hung);
  const auto [least, most] = k_status_values.at(static_cast<std::size_t>(status.kind));
  fields.value("value", status.value, least, most);
  fields.value("stage", status.stage, StartStage::interpreter);
  fields.value("core", status.core_dumped);
  fields.value("reason", status.reason);
}

void describe_failure(Fields& fields, report::Failure& failure, std::size_t text_limit,
                      std::size_t line_limit) {
  if (fields.writes()) cut_failure(failure, text_limit, line_limit);
  fields.value("attempt", failure.attempt);
  fields.value("rank", failure.rank);
  fields.value("local_rank", failure.local_rank);
  fields.value("host", failure.host);
  fields.value("pid", failure.pid);
  fields.value("program", failure.program);
  fields.value("status", failure.status, describe_status);
  fields.value("time", failure.unix_milliseconds);
  fields.value("message", failure.message, text_limit);
  fields.value("message_cut", failure.message_cut, 0, std::numeric_limits<int>::max());
  fields.value("lines", failure.last_lines, line_limit);
  fields.optional("hint", failure.hint);
  fields.optional("gpu", failure.gpu);
  fields.optional("out_of_memory", failure.out_of_memory);
  fields.optional("environment", failure.environment);
  fields.optional("log_file", failure.log_file);
  fields.optional("because", failure.because);
  fields.optional("collective", failure.collective);
  fields.optional("after_stop", failure.after_stop);
  fields.optional("alike", failure.alike, options::k_max_workers);
  fields.optional("gpu_fault", failure.gpu_fault);
}

}  // namespace

void check_is_failure(Fields& fields, const report::Failure& failure) {
  fields.check(!failure.status.success(), "failure", "is of a worker that succeeded");
}

void describe_first_failure(Fields& fields, report::Failure& failure) {
  describe_failure(fields, failure, k_max_failure_text, k_max_failure_lines);
}

void describe_further_failure(Fields& fields, report::Failure& failure) {
  describe_failure(fields, failure, k_max_further_text, k_max_further_lines);
  check_is_failure(fields, failure);
}

void describe_cause(Fields& fields, report::Cause& cause) {
  using Kind = report::Cause::Kind;
  fields.value("kind", cause.kind, Kind::launcher_failed);
  fields.value("failure", cause.failure, describe_first_failure);
  if (cause.kind == Kind::worker_failed) check_is_failure(fields, cause.failure);
  fields.value("signal", cause.signal, cause.kind == Kind::stopped_by_signal ? 1 : 0, k_highest_signal);
  fields.value("host", cause.host);
  fields.value("detail", cause.detail);
  fields.value("hint", cause.hint);
  fields.value("exit_code", cause.exit_code, 0, k_highest_exit_code);
}

// Fields of what messages tell of checkpoints.

namespace {

constexpr std::int64_t k_last_rank = k_max_processes - 1, k_most_attempts = 1 << 30;
constexpr std::size_t k_max_kept = 4;  // steps

void describe_part(Fields& fields, checkpoint::Part& part) {
  fields.value("step", part.step);
  fields.value("rank", part.rank);
  fields.value("world", part.world, 1, k_max_processes);
  fields.value("bytes", part.bytes);
  fields.optional("replica", part.replica);
  fields.check(part.rank < part.world, "rank", "is not below \"world\"");
}

void describe_ranks(Fields& fields, const char* name, std::vector<int>& ranks, std::size_t limit) {
  if (fields.has(name, !ranks.empty())) fields.value(name, ranks, limit);
  fields.check(std::ranges::all_of(ranks, [](int rank) { return rank <= k_last_rank; }), name,
               "are out of range");
}

void describe_holder(Fields& fields, checkpoint::Holder& holder) {
  fields.value("server", holder.server, describe_server);
  describe_ranks(fields, "ranks", holder.ranks, k_max_parts);
}

}  // namespace

void describe_server(Fields& fields, staging::Server& server) {
  fields.value("host", server.host);
  fields.value("door", server.door);
  fields.value("addresses", server.addresses, k_max_addresses);
  fields.check(std::ranges::all_of(server.addresses, is_address), "addresses", "are not numeric");
}

void describe_held(Fields& fields, checkpoint::Held& held) {
  const std::size_t left_out = held.parts.size() - std::min(held.parts.size(), k_max_parts);
  held.parts.erase(held.parts.begin(), held.parts.begin() + static_cast<std::ptrdiff_t>(left_out));
  if (fields.has("parts", !held.parts.empty())) fields.value("parts", held.parts, k_max_parts, describe_part);
  fields.optional("flushed", held.flushed);
  describe_ranks(fields, "flushed_ranks", held.flushed_ranks, k_max_parts);
  fields.optional("flushed_number", held.flushed_number, 0, k_most_attempts);
  fields.optional("published", held.published);
  fields.optional("published_world", held.published_world, 0, k_max_processes);
  fields.unless(-1, "attempt", held.attempt, 0, k_most_attempts);
  fields.unless(std::int64_t{-1}, "begun_from", held.begun_from);
  if (fields.has("before", !held.before.empty()))
    fields.value("before", held.before, checkpoint::k_most_before, -1);
}

void describe_restore(Fields& fields, checkpoint::Restore& restore) {
  fields.value("step", restore.step);
  fields.value("world", restore.world, 1, k_max_processes);
  fields.optional("from_flush", restore.from_flush);
  fields.optional("only_flush", restore.only_flush);
  fields.unless(true, "own", restore.own);
  if (!fields.has("holders", !restore.holders.empty())) return;
  fields.value("holders", restore.holders, k_max_holders, describe_holder);
  fields.drop_longer("holders", k_max_holder_bytes);
}

void describe_order(Fields& fields, checkpoint::Order& order) {
  fields.optional("copy_from", order.copy_from, describe_server);
  if (fields.has("complete", !order.complete.empty()))
    fields.value("complete", order.complete, k_max_kept, 0);
  fields.optional("flush", order.flush);
  fields.optional("flush_world", order.flush_world, 0, k_max_processes);
  fields.optional("flush_number", order.flush_number, 0, k_most_attempts);
  describe_ranks(fields, "flush_ranks", order.flush_ranks, k_max_parts);
  fields.optional("publish", order.publish);
  fields.optional("ending", order.ending);
}

}  // namespace ddprun::rendezvous
