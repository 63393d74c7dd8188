#include "rendezvous/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace ddprun::rendezvous {

namespace {

using Json = nlohmann::json;

std::string cut(const std::string& text, std::size_t limit = k_max_text) { return text.substr(0, limit); }

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The end of a traceback matters most, where the exception stands. From a line's begin on where one is near,
// else from a character's.
std::string_view end_of(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  text.remove_prefix(text.size() - limit);
  if (const auto line = text.substr(0, k_max_text).find('\n'); line != std::string_view::npos) {
    return text.substr(line + 1);
  }
  while (!text.empty() && continues_character(text.front())) text.remove_prefix(1);
  return text;
}

template <class T>
std::vector<T> first_of(const std::vector<T>& items, std::size_t limit) {
  return {items.begin(), items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), limit))};
}

Json texts_to_json(const std::vector<std::string>& texts, std::size_t limit) {
  Json list = Json::array();
  for (const std::string& text : first_of(texts, limit)) list.push_back(cut(text));
  return list;
}

Json to_json(const ExitStatus& status) {
  return {{"kind", static_cast<int>(status.kind)},
          {"value", status.value},
          {"stage", static_cast<int>(status.stage)},
          {"core", status.core_dumped},
          {"reason", cut(status.reason)}};
}

Json to_json(const supervise::Failure& failure, std::size_t text_limit, std::size_t line_limit) {
  // The last lines matter most.
  const auto& lines = failure.last_lines;
  const auto skipped = static_cast<std::ptrdiff_t>(lines.size() - std::min(lines.size(), line_limit));
  const std::string_view message = end_of(failure.message, text_limit);
  Json json = {{"attempt", failure.attempt.value},
               {"rank", failure.rank.value},
               {"local_rank", failure.local_rank.value},
               {"host", cut(failure.host)},
               {"pid", failure.pid},
               {"program", cut(failure.program)},
               {"status", to_json(failure.status)},
               {"time", failure.unix_milliseconds},
               {"message", message},
               {"message_cut", failure.message_cut + failure.message.size() - message.size()},
               {"lines", texts_to_json({lines.begin() + skipped, lines.end()}, line_limit)}};
  if (!failure.hint.empty()) json["hint"] = cut(failure.hint);
  if (!failure.gpu.empty()) json["gpu"] = cut(failure.gpu);
  if (!failure.out_of_memory.empty()) json["out_of_memory"] = cut(failure.out_of_memory);
  if (!failure.environment.empty()) json["environment"] = cut(failure.environment);
  if (!failure.log_file.empty()) json["log_file"] = cut(failure.log_file);
  if (failure.after_stop) json["after_stop"] = true;
  if (!failure.alike.empty()) json["alike"] = first_of(failure.alike, options::k_max_workers);
  return json;
}

Json first_failure(const supervise::Failure& failure) {
  return to_json(failure, k_max_failure_text, k_max_failure_lines);
}

Json further_failures(const std::vector<supervise::Failure>& failures) {
  Json list = Json::array();
  for (const supervise::Failure& failure : first_of(failures, k_max_further_failures)) {
    list.push_back(to_json(failure, k_max_further_text, k_max_further_lines));
  }
  return list;
}

Json to_json(const supervise::Cause& cause) {
  return {{"kind", static_cast<int>(cause.kind)},
          {"failure", first_failure(cause.failure)},
          {"signal", cause.signal},
          {"host", cut(cause.host)},
          {"detail", cut(cause.detail)},
          {"hint", cut(cause.hint)},
          {"exit_code", cause.exit_code}};
}

Json to_json(const LaunchFailure& failure) {
  return {{"what", cut(failure.what)},
          {"rest", cut(failure.rest)},
          {"names_host", failure.names_host},
          {"hint", cut(failure.hint)},
          {"exit_code", failure.exit_code}};
}

using Workers = std::vector<plan::LocalPeerWorker>;

// For each worker its device, then the addresses of its GPUs. Nothing where no device is known: most agents
// have none to tell, and 128 of them may be on a host.
void add_devices(Json& json, const Workers& workers) {
  const auto is_known = [](const plan::LocalPeerWorker& worker) {
    return !worker.device.empty() || !worker.gpus.empty();
  };
  if (std::none_of(workers.begin(), workers.end(), is_known)) return;
  Json list = Json::array();
  for (const plan::LocalPeerWorker& worker : workers) {
    Json row = texts_to_json(worker.gpus, k_max_worker_gpus);
    row.insert(row.begin(), cut(worker.device));
    list.push_back(std::move(row));
  }
  if (write_json_text(list).size() <= k_max_devices) json["devices"] = std::move(list);
}

void add_workers(Json& json, const Workers& workers) {
  const Workers told = first_of(workers, options::k_max_workers);
  json["local_workers"] = told.size();
  add_devices(json, told);
}

// All agents of a host or none: a part of them would be taken for the whole.
void add_local_peers(Json& json, const std::vector<plan::LocalPeer>& local_peers) {
  Workers workers;
  Json rows = Json::array();
  for (const plan::LocalPeer& local_peer : local_peers) {
    rows.push_back(
        {local_peer.first_local_rank.value, local_peer.same_cpus ? 1 : 0, local_peer.workers.size()});
    workers.insert(workers.end(), local_peer.workers.begin(), local_peer.workers.end());
  }
  if (std::max(rows.size(), workers.size()) > options::k_max_workers) return;
  json["local_peers"] = std::move(rows);
  add_devices(json, workers);
}

Json to_json(const plan::Announcement& announcement) {
  Json json = {{"host", cut(announcement.host)},
               {"style_assumed", announcement.style_assumed},
               {"workers", announcement.workers},
               {"first_local_rank", announcement.first_local_rank.value},
               {"role", cut(announcement.role)},
               {"max_restarts", announcement.max_restarts},
               {"addresses", texts_to_json(announcement.addresses, k_max_addresses)},
               {"store_ports", first_of(announcement.store_ports, k_max_store_ports)}};
  if (announcement.agent) json["agent"] = announcement.agent->value;
  if (announcement.node) json["node"] = announcement.node->value;
  if (announcement.launcher_rank) json["launcher_rank"] = announcement.launcher_rank->value;
  if (announcement.fixed_rank) json["fixed_rank"] = announcement.fixed_rank->value;
  if (!announcement.python.version.empty()) json["python"] = cut(announcement.python.version);
  if (!announcement.python.torch.empty()) json["torch"] = cut(announcement.python.torch);
  if (!announcement.cpus.empty()) json["cpus"] = cut(announcement.cpus);
  if (announcement.counted) json["counted"] = true;
  if (!announcement.missing_gpus.empty()) json["missing_gpus"] = cut(announcement.missing_gpus);
  if (!announcement.local_workers.empty()) add_workers(json, announcement.local_workers);
  if (announcement.host_timeout) json["host_timeout"] = announcement.host_timeout->count();
  if (announcement.successor_port > 0) json["successor_port"] = announcement.successor_port;
  return json;
}

Json to_json(const Roll& roll) {
  Json ranges = Json::array();
  for (const PlaceRange& range : first_of(roll.agents, k_max_place_ranges))
    ranges.push_back({range.first, range.last});
  return {{"number", roll.number}, {"agents", std::move(ranges)}};
}

Json to_json(const Successor& successor) {
  return {{"place", successor.place.value},
          {"host", cut(successor.host)},
          {"addresses", texts_to_json(successor.addresses, k_max_successor_addresses)},
          {"port", successor.port}};
}

Json to_json(const Roster& roster) {
  Json rolls = Json::array(), successors = Json::array();
  for (const Roll& roll : first_of(roster.rolls, k_max_rolls)) rolls.push_back(to_json(roll));
  for (const Successor& each : first_of(roster.successors, k_max_successors))
    successors.push_back(to_json(each));
  Json json = {{"rolls", std::move(rolls)},
               {"coordinator", roster.coordinator.value},
               {"host", cut(roster.host)},
               {"successors", std::move(successors)},
               {"attempt", roster.attempt.value},
               {"used_restarts", roster.used_restarts},
               {"launch_id", cut(roster.launch_id)},
               {"own", roster.own.value},
               {"counts", roster.counts},
               {"aside", roster.aside}};
  if (roster.ending) json["ending"] = {{"signal", roster.ending->signal}, {"host", cut(roster.ending->host)}};
  if (roster.slot) json["slot"] = *roster.slot;
  return json;
}

Json to_json(const Survivor& survivor) {
  return {{"roster", to_json(survivor.roster)}, {"ended", first_of(survivor.ended, k_max_successors)}};
}

Json to_json(const plan::Assignment& assignment) {
  Json workers = Json::array();
  for (const plan::RankAssignment& assigned : assignment.workers) {
    workers.push_back(
        {assigned.rank.value, assigned.local_rank.value, assigned.role_rank, assigned.role_world_size});
  }
  Json json = {{"attempt", assignment.attempt.value},
               {"world_size", assignment.world_size},
               {"local_world_size", assignment.local_world_size},
               {"node", assignment.node.value},
               {"node_count", assignment.node_count},
               {"address", cut(assignment.master_address)},
               {"port", assignment.master_port},
               {"agent_per_task", assignment.agent_per_task},
               {"workers", std::move(workers)}};
  if (assignment.several_workers) json["several_workers"] = true;
  if (!assignment.workers_of_nodes.empty()) json["workers_of_nodes"] = cut(assignment.workers_of_nodes);
  if (!assignment.run_id.empty()) json["run_id"] = cut(assignment.run_id);
  if (!assignment.launch_id.empty()) json["launch_id"] = cut(assignment.launch_id);
  if (!assignment.local_peers.empty()) add_local_peers(json, assignment.local_peers);
  return json;
}

Json to_json(const StoreConnection& connection) {
  return {{"client", cut(connection.client)},
          {"client_port", connection.client_port},
          {"server", cut(connection.server)},
          {"server_port", connection.server_port}};
}

struct ToJson {
  Json operator()(const Join& join) const {
    Json json = {{"type", "join"},
                 {"announcement", to_json(join.announcement)},
                 {"version", cut(join.version)},
                 {"reached", cut(join.reached)},
                 {"agents", join.agents}};
    if (join.failure) json["failure"] = to_json(*join.failure);
    if (join.survivor) json["survivor"] = to_json(*join.survivor);
    return json;
  }
  Json operator()(const Probed& probed) const {
    return {{"type", "probed"},
            {"reachable", texts_to_json(probed.reachable, k_max_addresses)},
            {"failures", texts_to_json(probed.failures, k_max_addresses)}};
  }
  Json operator()(const AttemptFailed& failed) const {
    return {
        {"type", "failed"}, {"attempt", failed.attempt.value}, {"failure", first_failure(failed.failure)}};
  }
  Json operator()(const AttemptSucceeded& succeeded) const {
    return {{"type", "succeeded"}, {"attempt", succeeded.attempt.value}};
  }
  Json operator()(const Stopped& stopped) const {
    return {{"type", "stopped"},
            {"attempt", stopped.attempt.value},
            {"failures", further_failures(stopped.failures)},
            {"stopped", first_of(stopped.stopped, options::k_max_workers)},
            {"progressed", stopped.progressed}};
  }
  Json operator()(const StopRequest& request) const {
    return {{"type", "stop_request"},
            {"signal", request.signal},
            {"host", cut(request.host)},
            {"whole_tree", request.whole_tree},
            {"sender", cut(request.sender)}};
  }
  Json operator()(const ClientVerdict& verdict) const {
    return {{"type", "client_verdict"},
            {"connection", to_json(verdict.connection)},
            {"holder", static_cast<int>(verdict.holder)}};
  }
  Json operator()(const Happened& happened) const {
    return {{"type", "happened"}, {"line", events::render_event(happened.event)}};
  }
  Json operator()(const lifeline::Output& output) const {
    return {
        {"type", "output"}, {"error", output.stream == lifeline::Stream::error}, {"host", cut(output.host)}};
  }
  Json operator()(const StatusAnswer& answer) const {
    return {
        {"type", "status"}, {"question", answer.question}, {"node", status::render_status(answer.status)}};
  }
  Json operator()(const StatusQuestion& asked) const {
    return {{"type", "status_question"}, {"question", asked.question}};
  }
  Json operator()(const RosterTaken& taken) const {
    return {{"type", "roster_taken"}, {"number", taken.number}};
  }
  Json operator()(const Refused& refused) const {
    return {{"type", "refused"}, {"reason", cut(refused.reason)}, {"hint", cut(refused.hint)}};
  }
  Json operator()(const Probe& probe) const {
    return {{"type", "probe"},
            {"addresses", texts_to_json(probe.addresses, k_max_addresses)},
            {"port", probe.port}};
  }
  Json operator()(const ClientQuestion& question) const {
    return {{"type", "client_question"},
            {"connection", to_json(question.connection)},
            {"access", static_cast<int>(question.access)}};
  }
  Json operator()(const Roster& roster) const {
    Json json = to_json(roster);
    json["type"] = "roster";
    return json;
  }
  Json operator()(const Start& start) const {
    Json json = {{"type", "start"}, {"assignment", to_json(start.assignment)}};
    if (start.pause > Milliseconds{0}) json["pause"] = start.pause.count();
    return json;
  }
  Json operator()(const Standby&) const { return {{"type", "standby"}}; }
  Json operator()(const Stop& stop) const {
    return {{"type", "stop"},
            {"attempt", stop.attempt.value},
            {"signal", stop.signal},
            {"whole_tree", stop.whole_tree}};
  }
  Json operator()(const Finish& finish) const {
    return {{"type", "finish"},
            {"cause", to_json(finish.cause)},
            {"others", further_failures(finish.others)},
            {"remarks", texts_to_json(finish.remarks, k_max_remarks)},
            {"report_here", finish.report_here}};
  }
};

template <class Message>
std::string encode_any(const Message& message) {
  const std::string payload = write_json_text(std::visit(ToJson{}, message));
  std::string frame;
  frame.reserve(k_frame_header + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame.push_back(static_cast<char>((payload.size() >> shift) & 0xff));
  }
  return frame + payload;
}

}  // namespace

std::string encode(const AgentMessage& message) { return encode_any(message); }
std::string encode(const CoordinatorMessage& message) { return encode_any(message); }

}  // namespace ddprun::rendezvous
