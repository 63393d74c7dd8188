#include "ddprun/rendezvous/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "codec_failure.hpp"
#include "json_fields.hpp"

namespace ddprun {

namespace {

using Json = nlohmann::json;

// ---- writing

Json to_json(const Cause& cause) {
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

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

using Workers = std::vector<NeighbourWorker>;

// For each worker its device, then the addresses of its GPUs. Nothing where no device is known: most agents
// have none to tell, and 128 of them may be on a host.
void add_devices(Json& json, const Workers& workers) {
  const auto is_known = [](const NeighbourWorker& worker) {
    return !worker.device.empty() || !worker.gpus.empty();
  };
  if (std::none_of(workers.begin(), workers.end(), is_known)) return;
  Json list = Json::array();
  for (const NeighbourWorker& worker : workers) {
    Json row = texts_to_json(worker.gpus, k_max_worker_gpus);
    row.insert(row.begin(), cut(worker.device));
    list.push_back(std::move(row));
  }
  if (dump(list).size() <= k_max_devices) json["devices"] = std::move(list);
}

void add_workers(Json& json, const Workers& workers) {
  const Workers told = first_of(workers, k_max_workers);
  json["local_workers"] = told.size();
  add_devices(json, told);
}

// All agents of a host or none: a part of them would be taken for the whole.
void add_neighbours(Json& json, const std::vector<Neighbour>& neighbours) {
  Workers workers;
  Json rows = Json::array();
  for (const Neighbour& neighbour : neighbours) {
    rows.push_back({neighbour.first_local_rank.value, neighbour.same_cpus ? 1 : 0, neighbour.workers.size()});
    workers.insert(workers.end(), neighbour.workers.begin(), neighbour.workers.end());
  }
  if (std::max(rows.size(), workers.size()) > k_max_workers) return;
  json["neighbours"] = std::move(rows);
  add_devices(json, workers);
}

Json to_json(const Announcement& announcement) {
  Json json = {{"agent", announcement.agent.value},
               {"host", cut(announcement.host)},
               {"style_assumed", announcement.style_assumed},
               {"workers", announcement.workers},
               {"first_local_rank", announcement.first_local_rank.value},
               {"role", cut(announcement.role)},
               {"max_restarts", announcement.max_restarts},
               {"addresses", texts_to_json(announcement.addresses, k_max_addresses)},
               {"store_ports", first_of(announcement.store_ports, k_max_store_ports)}};
  if (announcement.node) json["node"] = announcement.node->value;
  if (announcement.launcher_rank) json["launcher_rank"] = announcement.launcher_rank->value;
  if (announcement.fixed_rank) json["fixed_rank"] = announcement.fixed_rank->value;
  if (!announcement.python.version.empty()) json["python"] = cut(announcement.python.version);
  if (!announcement.python.torch.empty()) json["torch"] = cut(announcement.python.torch);
  if (!announcement.cpus.empty()) json["cpus"] = cut(announcement.cpus);
  if (announcement.counted) json["counted"] = true;
  if (!announcement.missing_gpus.empty()) json["missing_gpus"] = cut(announcement.missing_gpus);
  if (!announcement.local_workers.empty()) add_workers(json, announcement.local_workers);
  return json;
}

Json to_json(const Assignment& assignment) {
  Json seats = Json::array();
  for (const WorkerSeat& seat : assignment.seats) {
    seats.push_back({seat.rank.value, seat.local_rank.value, seat.role_rank, seat.role_world_size});
  }
  Json json = {{"attempt", assignment.attempt.value},
               {"world_size", assignment.world_size},
               {"local_world_size", assignment.local_world_size},
               {"node", assignment.node.value},
               {"node_count", assignment.node_count},
               {"address", cut(assignment.master_address)},
               {"port", assignment.master_port},
               {"agent_per_task", assignment.agent_per_task},
               {"seats", std::move(seats)}};
  if (assignment.several_workers) json["several_workers"] = true;
  if (!assignment.workers_of_nodes.empty()) json["workers_of_nodes"] = cut(assignment.workers_of_nodes);
  if (!assignment.run_id.empty()) json["run_id"] = cut(assignment.run_id);
  if (!assignment.launch_id.empty()) json["launch_id"] = cut(assignment.launch_id);
  if (!assignment.neighbours.empty()) add_neighbours(json, assignment.neighbours);
  return json;
}

struct ToJson {
  Json operator()(const Join& join) const {
    Json json = {{"type", "join"},
                 {"announcement", to_json(join.announcement)},
                 {"version", cut(join.version)},
                 {"reached", cut(join.reached)},
                 {"agents", join.agents}};
    if (join.failure) json["failure"] = to_json(*join.failure);
    return json;
  }
  Json operator()(const Probed& probed) const {
    return {{"type", "probed"}, {"reachable", texts_to_json(probed.reachable, k_max_addresses)}};
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
            {"stopped", first_of(stopped.stopped, k_max_workers)}};
  }
  Json operator()(const StopRequest& request) const {
    return {{"type", "stop_request"},
            {"signal", request.signal},
            {"host", cut(request.host)},
            {"whole_tree", request.whole_tree}};
  }
  Json operator()(const AddressAnswer& answer) const {
    return {{"type", "address_answer"}, {"address", cut(answer.address)}, {"own", answer.own}};
  }
  Json operator()(const Happened& happened) const {
    return {{"type", "happened"}, {"line", render_event(happened.event)}};
  }
  Json operator()(const Refused& refused) const {
    return {{"type", "refused"}, {"reason", cut(refused.reason)}, {"hint", cut(refused.hint)}};
  }
  Json operator()(const Probe& probe) const {
    return {{"type", "probe"},
            {"addresses", texts_to_json(probe.addresses, k_max_addresses)},
            {"port", probe.port}};
  }
  Json operator()(const AskAddress& ask) const {
    return {{"type", "ask_address"}, {"address", cut(ask.address)}};
  }
  Json operator()(const Start& start) const {
    return {{"type", "start"}, {"assignment", to_json(start.assignment)}};
  }
  Json operator()(const Stop& stop) const {
    Json json = {{"type", "stop"},
                 {"attempt", stop.attempt.value},
                 {"signal", stop.signal},
                 {"whole_tree", stop.whole_tree}};
    if (stop.grace) json["grace_ms"] = stop.grace->count();
    return json;
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
  const std::string payload = dump(std::visit(ToJson{}, message));
  std::string frame;
  frame.reserve(k_frame_header + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame.push_back(static_cast<char>((payload.size() >> shift) & 0xff));
  }
  return frame + payload;
}

// ---- reading

Cause read_cause(const Fields& fields) {
  Cause cause;
  cause.kind = static_cast<Cause::Kind>(fields.integer("kind", 0, 5));
  cause.failure = read_first_failure(fields.object("failure"));
  if (cause.kind == Cause::Kind::worker_failed) check_is_failure(fields, cause.failure);
  const bool signalled = cause.kind == Cause::Kind::stopped_by_signal;
  cause.signal = fields.integer("signal", signalled ? 1 : 0, k_highest_signal);
  cause.host = fields.text("host");
  cause.detail = fields.text("detail");
  cause.hint = fields.text("hint");
  cause.exit_code = fields.integer("exit_code", 0, k_highest_exit_code);
  return cause;
}

LaunchFailure read_launch_failure(const Fields& fields) {
  return {fields.text("what"), fields.text("rest"), fields.flag("names_host"), fields.text("hint"),
          fields.integer("exit_code", 1, k_highest_exit_code)};
}

Workers read_devices(const Fields& fields, std::size_t workers) {
  Workers result(workers);
  if (!fields.has("devices")) return result;
  auto rows = fields.text_rows("devices", workers, k_max_worker_gpus + 1);
  for (std::size_t i = 0; i < std::min(rows.size(), workers); ++i) {
    result[i].device = std::move(rows[i].front());
    result[i].gpus.assign(std::next(rows[i].begin()), rows[i].end());
  }
  return result;
}

std::vector<Neighbour> read_neighbours(const Fields& fields) {
  const auto rows = fields.rows<3>("neighbours", k_max_workers);
  std::size_t workers = 0;
  for (const auto& row : rows) workers += static_cast<std::size_t>(row[2]);
  if (workers > k_max_workers)
    return fields.fail("\"neighbours\" have too many workers"), std::vector<Neighbour>{};
  const Workers all = read_devices(fields, workers);
  auto next = all.begin();
  std::vector<Neighbour> neighbours;
  for (const auto& row : rows) {
    const auto end = next + row[2];
    neighbours.push_back({{row[0]}, row[1] != 0, {next, end}});
    next = end;
  }
  return neighbours;
}

Announcement read_announcement(const Fields& fields) {
  Announcement announcement;
  announcement.agent.value = fields.integer("agent", k_unnumbered.value);
  announcement.host = fields.text("host");
  if (fields.has("node")) announcement.node = NodeIndex{fields.count("node")};
  if (fields.has("launcher_rank")) announcement.launcher_rank = GlobalRank{fields.count("launcher_rank")};
  announcement.style_assumed = fields.flag("style_assumed");
  announcement.workers = fields.integer("workers", 1, k_max_workers);
  announcement.first_local_rank.value = fields.count("first_local_rank");
  announcement.role = fields.text("role");
  announcement.max_restarts = fields.count("max_restarts");
  announcement.addresses = fields.texts("addresses", k_max_addresses);
  announcement.store_ports = fields.ports("store_ports", k_max_store_ports);
  if (fields.has("fixed_rank")) announcement.fixed_rank = GlobalRank{fields.count("fixed_rank")};
  if (fields.has("python")) announcement.python.version = fields.text("python");
  if (fields.has("torch")) announcement.python.torch = fields.text("torch");
  if (fields.has("cpus")) announcement.cpus = fields.text("cpus");
  if (fields.has("counted")) announcement.counted = fields.flag("counted");
  if (fields.has("missing_gpus")) announcement.missing_gpus = fields.text("missing_gpus");
  if (fields.has("local_workers")) {
    const int workers = fields.integer("local_workers", 0, k_max_workers);
    announcement.local_workers = read_devices(fields, static_cast<std::size_t>(workers));
  }
  return announcement;
}

void check_places(const Fields& fields, const Assignment& assignment) {
  const auto fits = [&](const WorkerSeat& seat) {
    return seat.rank.value < assignment.world_size && seat.local_rank.value < assignment.local_world_size &&
           seat.role_rank < seat.role_world_size && seat.role_world_size <= assignment.world_size;
  };
  if (!std::all_of(assignment.seats.begin(), assignment.seats.end(), fits))
    fields.fail("\"seats\" has a rank that is not below its world size");
  if (assignment.seats.empty()) fields.fail("\"seats\" is empty");
  if (assignment.node.value >= assignment.node_count) fields.fail("\"node\" is not below \"node_count\"");
}

Assignment read_assignment(const Fields& fields) {
  Assignment assignment;
  assignment.attempt.value = fields.count("attempt");
  assignment.world_size = fields.count("world_size");
  assignment.local_world_size = fields.count("local_world_size");
  assignment.node.value = fields.count("node");
  assignment.node_count = fields.count("node_count");
  assignment.master_address = fields.text("address");
  assignment.master_port = fields.integer("port", 0, 65535);
  assignment.agent_per_task = fields.flag("agent_per_task");
  if (fields.has("several_workers")) assignment.several_workers = fields.flag("several_workers");
  if (fields.has("workers_of_nodes")) assignment.workers_of_nodes = fields.text("workers_of_nodes");
  if (fields.has("run_id")) assignment.run_id = fields.text("run_id");
  if (fields.has("launch_id")) assignment.launch_id = fields.text("launch_id");
  for (const auto& seat : fields.rows<4>("seats", k_max_workers)) {
    assignment.seats.push_back({{seat[0]}, {seat[1]}, seat[2], seat[3]});
  }
  if (fields.has("neighbours")) assignment.neighbours = read_neighbours(fields);
  check_places(fields, assignment);
  return assignment;
}

Happened read_happened(const Fields& fields) {
  const auto event = parse_event(fields.text("line", k_max_event));
  if (!event) fields.fail("\"line\" is no event");
  return {event.value_or(Event{})};
}

std::optional<AgentMessage> read_agent_message(const std::string& type, const Fields& fields) {
  if (type == "join") {
    Join join{read_announcement(fields.object("announcement")), fields.text("version"),
              fields.text("reached"), fields.count("agents")};
    if (fields.has("failure")) join.failure = read_launch_failure(fields.object("failure"));
    return join;
  }
  if (type == "probed") return Probed{fields.texts("reachable", k_max_addresses)};
  if (type == "failed") {
    AttemptFailed failed{{fields.count("attempt")}, read_first_failure(fields.object("failure"))};
    check_is_failure(fields, failed.failure);
    return failed;
  }
  if (type == "happened") return read_happened(fields);
  if (type == "succeeded") return AttemptSucceeded{{fields.count("attempt")}};
  if (type == "stopped") {
    return Stopped{{fields.count("attempt")},
                   read_further_failures(fields, "failures"),
                   fields.counts("stopped", k_max_workers)};
  }
  if (type == "stop_request") {
    return StopRequest{fields.integer("signal", 1, k_highest_signal), fields.text("host"),
                       fields.flag("whole_tree")};
  }
  if (type == "address_answer") return AddressAnswer{fields.text("address"), fields.flag("own")};
  return std::nullopt;
}

std::optional<CoordinatorMessage> read_coordinator_message(const std::string& type, const Fields& fields) {
  if (type == "refused") return Refused{fields.text("reason"), fields.text("hint")};
  if (type == "probe") {
    return Probe{fields.texts("addresses", k_max_addresses), fields.integer("port", 1, 65535)};
  }
  if (type == "ask_address") return AskAddress{fields.text("address")};
  if (type == "start") return Start{read_assignment(fields.object("assignment"))};
  if (type == "stop") {
    Stop stop{{fields.count("attempt")},
              std::nullopt,
              fields.integer("signal", 1, k_highest_signal),
              fields.flag("whole_tree")};
    if (fields.has("grace_ms")) stop.grace = Milliseconds{fields.count("grace_ms")};
    return stop;
  }
  if (type == "finish") {
    return Finish{read_cause(fields.object("cause")), read_further_failures(fields, "others"),
                  fields.texts("remarks", k_max_remarks), fields.flag("report_here")};
  }
  return std::nullopt;
}

template <class Message, class Read>
std::variant<Message, CodecError> decode_any(std::string_view payload, const Read& read) {
  const Json json = Json::parse(payload, nullptr, false);
  std::string problem;
  const Fields fields(json, problem);
  const std::string type = fields.text("type");
  const std::optional<Message> message = problem.empty() ? read(type, fields) : std::nullopt;
  if (!problem.empty()) return CodecError{"a message that cannot be understood: " + problem};
  if (!message) return CodecError{"a message of an unknown kind"};
  return *message;
}

}  // namespace

std::string encode(const AgentMessage& message) { return encode_any(message); }
std::string encode(const CoordinatorMessage& message) { return encode_any(message); }

std::variant<AgentMessage, CodecError> decode_agent_message(std::string_view payload) {
  return decode_any<AgentMessage>(payload, read_agent_message);
}
std::variant<CoordinatorMessage, CodecError> decode_coordinator_message(std::string_view payload) {
  return decode_any<CoordinatorMessage>(payload, read_coordinator_message);
}

}  // namespace ddprun
