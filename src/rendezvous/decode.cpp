#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "plan/node_proposal.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator_place.hpp"
#include "json_fields.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr int k_highest_signal = 64;
constexpr int k_highest_exit_code = 255;
constexpr int k_highest_errno = 4095;

using Json = nlohmann::json;
using Workers = std::vector<plan::LocalPeerWorker>;

// A number that a process cannot end with would become another exit code of ddprun, 0 among them.
int read_status_value(const Fields& fields, ExitStatus::Kind kind) {
  switch (kind) {
    case ExitStatus::Kind::exited:
      return fields.integer("value", 0, k_highest_exit_code);
    case ExitStatus::Kind::signalled:
      return fields.integer("value", 1, k_highest_signal);
    case ExitStatus::Kind::not_started:
      return fields.integer("value", 0, k_highest_errno);
  }
  return 0;
}

ExitStatus read_status(const Fields& fields) {
  ExitStatus status;
  status.kind = static_cast<ExitStatus::Kind>(fields.integer("kind", 0, 2));
  status.value = read_status_value(fields, status.kind);
  status.stage =
      static_cast<StartStage>(fields.integer("stage", 0, static_cast<int>(StartStage::interpreter)));
  status.core_dumped = fields.flag("core");
  status.reason = fields.text("reason");
  return status;
}

supervise::Failure read_failure(const Fields& fields, std::size_t text_limit, std::size_t line_limit) {
  supervise::Failure failure;
  failure.attempt.value = fields.count("attempt");
  failure.rank.value = fields.count("rank");
  failure.local_rank.value = fields.count("local_rank");
  failure.host = fields.text("host");
  failure.pid = fields.count("pid");
  failure.program = fields.text("program");
  failure.status = read_status(fields.object("status"));
  failure.unix_milliseconds = fields.integer64("time", 0);
  failure.message = fields.text("message", text_limit);
  failure.message_cut = static_cast<std::size_t>(fields.count("message_cut"));
  failure.last_lines = fields.texts("lines", line_limit);
  const auto optional_text = [&](const char* name) {
    return fields.has(name) ? fields.text(name) : std::string();
  };
  failure.hint = optional_text("hint");
  failure.gpu = optional_text("gpu");
  failure.out_of_memory = optional_text("out_of_memory");
  failure.environment = optional_text("environment");
  failure.log_file = optional_text("log_file");
  failure.after_stop = fields.has("after_stop") && fields.flag("after_stop");
  if (fields.has("alike")) failure.alike = fields.counts("alike", options::k_max_workers);
  return failure;
}

supervise::Failure read_first_failure(const Fields& fields) {
  return read_failure(fields, k_max_failure_text, k_max_failure_lines);
}

void check_is_failure(const Fields& fields, const supervise::Failure& failure) {
  if (failure.status.success()) fields.fail("\"failure\" is of a worker that succeeded");
}

std::vector<supervise::Failure> read_further_failures(const Fields& fields, const char* name) {
  std::vector<supervise::Failure> failures;
  for (const Fields& item : fields.objects(name, k_max_further_failures)) {
    failures.push_back(read_failure(item, k_max_further_text, k_max_further_lines));
    check_is_failure(fields, failures.back());
  }
  return failures;
}

supervise::Cause read_cause(const Fields& fields) {
  supervise::Cause cause;
  cause.kind = static_cast<supervise::Cause::Kind>(fields.integer("kind", 0, 5));
  cause.failure = read_first_failure(fields.object("failure"));
  if (cause.kind == supervise::Cause::Kind::worker_failed) check_is_failure(fields, cause.failure);
  const bool signalled = cause.kind == supervise::Cause::Kind::stopped_by_signal;
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

std::vector<plan::LocalPeer> read_local_peers(const Fields& fields) {
  const auto rows = fields.rows<3>("local_peers", options::k_max_workers);
  std::size_t workers = 0;
  for (const auto& row : rows) workers += static_cast<std::size_t>(row[2]);
  if (workers > options::k_max_workers)
    return fields.fail("\"local_peers\" have too many workers"), std::vector<plan::LocalPeer>{};
  const Workers all = read_devices(fields, workers);
  auto next = all.begin();
  std::vector<plan::LocalPeer> local_peers;
  for (const auto& row : rows) {
    const auto end = next + row[2];
    local_peers.push_back({{row[0]}, row[1] != 0, {next, end}});
    next = end;
  }
  return local_peers;
}

plan::Announcement read_announcement(const Fields& fields) {
  plan::Announcement announcement;
  if (fields.has("agent")) announcement.agent = AgentIndex{fields.count("agent")};
  announcement.host = fields.text("host");
  if (fields.has("node")) announcement.node = NodeIndex{fields.count("node")};
  if (fields.has("launcher_rank")) announcement.launcher_rank = GlobalRank{fields.count("launcher_rank")};
  announcement.style_assumed = fields.flag("style_assumed");
  announcement.workers = fields.integer("workers", 1, options::k_max_workers);
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
    const int workers = fields.integer("local_workers", 0, options::k_max_workers);
    announcement.local_workers = read_devices(fields, static_cast<std::size_t>(workers));
  }
  if (fields.has("host_timeout"))
    announcement.host_timeout = Milliseconds{fields.integer64("host_timeout", 1)};
  if (fields.has("successor_port")) announcement.successor_port = fields.integer("successor_port", 1, 65535);
  return announcement;
}

Roll read_roll(const Fields& fields) {
  Roll roll{fields.integer("number", 1), {}};
  int next = 0;
  for (const auto& [first, last] : fields.rows<2>("agents", k_max_place_ranges)) {
    if (first < next || last < first || last >= plan::k_max_agents)
      return fields.fail("\"agents\" are not in order"), roll;
    roll.agents.push_back({first, last});
    next = last + 1;
  }
  if (roll.agents.empty()) fields.fail("\"agents\" are none");
  return roll;
}

Successor read_successor(const Fields& fields) {
  Successor successor{{fields.count("place")},
                      fields.text("host"),
                      fields.texts("addresses", k_max_successor_addresses),
                      fields.integer("port", 1, 65535)};
  if (!std::ranges::all_of(successor.addresses, is_address)) fields.fail("\"addresses\" are not numeric");
  return successor;
}

Roster read_roster(const Fields& fields) {
  Roster roster;
  for (const Fields& each : fields.objects("rolls", k_max_rolls)) {
    roster.rolls.push_back(read_roll(each));
    const auto count = roster.rolls.size();
    if (count > 1 && roster.rolls[count - 2].number > roster.rolls[count - 1].number)
      fields.fail("\"rolls\" are not in order");
  }
  if (roster.rolls.empty()) fields.fail("\"rolls\" are none");
  roster.coordinator.value = fields.count("coordinator");
  roster.host = fields.text("host");
  for (const Fields& each : fields.objects("successors", k_max_successors))
    roster.successors.push_back(read_successor(each));
  roster.attempt.value = fields.count("attempt");
  roster.used_restarts = fields.count("used_restarts");
  roster.launch_id = fields.text("launch_id");
  roster.own.value = fields.integer("own", 0, plan::k_max_agents - 1);
  if (fields.has("slot")) roster.slot = fields.count("slot");
  roster.counts = fields.flag("counts");
  roster.aside = fields.flag("aside");
  if (fields.has("ending")) {
    const Fields ending = fields.object("ending");
    roster.ending = Ending{ending.integer("signal", 1, k_highest_signal), ending.text("host")};
  }
  return roster;
}

void check_places(const Fields& fields, const plan::Assignment& assignment) {
  const auto fits = [&](const plan::RankAssignment& assigned) {
    return assigned.rank.value < assignment.world_size &&
           assigned.local_rank.value < assignment.local_world_size &&
           assigned.role_rank < assigned.role_world_size && assigned.role_world_size <= assignment.world_size;
  };
  if (!std::all_of(assignment.workers.begin(), assignment.workers.end(), fits))
    fields.fail("\"workers\" has a rank that is not below its world size");
  if (assignment.workers.empty()) fields.fail("\"workers\" is empty");
  if (assignment.node.value >= assignment.node_count) fields.fail("\"node\" is not below \"node_count\"");
}

plan::Assignment read_assignment(const Fields& fields) {
  plan::Assignment assignment;
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
  for (const auto& assigned : fields.rows<4>("workers", options::k_max_workers)) {
    assignment.workers.push_back({{assigned[0]}, {assigned[1]}, assigned[2], assigned[3]});
  }
  if (fields.has("local_peers")) assignment.local_peers = read_local_peers(fields);
  check_places(fields, assignment);
  return assignment;
}

StoreConnection read_store_connection(const Fields& fields) {
  return {fields.text("client"), fields.integer("client_port", 1, 65535), fields.text("server"),
          fields.integer("server_port", 1, 65535)};
}

Happened read_happened(const Fields& fields) {
  const auto event = events::parse_event(fields.text("line", events::k_max_event));
  if (!event) fields.fail("\"line\" is not an event");
  return {event.value_or(events::Event{})};
}

StatusAnswer read_status_answer(const Fields& fields) {
  const auto status = status::parse_node_status(fields.text("node", status::k_max_node_status));
  if (!status) fields.fail("\"node\" is not a status");
  return {fields.count("question"), status.value_or(status::NodeStatus{})};
}

std::optional<AgentMessage> read_agent_message(const std::string& type, const Fields& fields) {
  if (type == "join") {
    Join join{read_announcement(fields.object("announcement")), fields.text("version"),
              fields.text("reached"), fields.count("agents")};
    if (fields.has("failure")) join.failure = read_launch_failure(fields.object("failure"));
    if (fields.has("survivor")) {
      const Fields survivor = fields.object("survivor");
      join.survivor =
          Survivor{read_roster(survivor.object("roster")), survivor.counts("ended", k_max_successors)};
    }
    return join;
  }
  if (type == "probed")
    return Probed{fields.texts("reachable", k_max_addresses), fields.texts("failures", k_max_addresses)};
  if (type == "failed") {
    AttemptFailed failed{{fields.count("attempt")}, read_first_failure(fields.object("failure"))};
    check_is_failure(fields, failed.failure);
    return failed;
  }
  if (type == "happened") return read_happened(fields);
  if (type == "status") return read_status_answer(fields);
  if (type == "roster_taken") return RosterTaken{fields.integer("number", 1)};
  if (type == "output") {
    return lifeline::Output{fields.flag("error") ? lifeline::Stream::error : lifeline::Stream::output,
                            fields.text("host")};
  }
  if (type == "succeeded") return AttemptSucceeded{{fields.count("attempt")}};
  if (type == "stopped") {
    return Stopped{{fields.count("attempt")},
                   read_further_failures(fields, "failures"),
                   fields.counts("stopped", options::k_max_workers),
                   fields.flag("progressed")};
  }
  if (type == "stop_request") {
    return StopRequest{fields.integer("signal", 1, k_highest_signal), fields.text("host"),
                       fields.flag("whole_tree"), fields.text("sender")};
  }
  if (type == "client_verdict") {
    return ClientVerdict{read_store_connection(fields.object("connection")),
                         static_cast<Holder>(fields.integer("holder", 0, 3))};
  }
  return std::nullopt;
}

std::optional<CoordinatorMessage> read_coordinator_message(const std::string& type, const Fields& fields) {
  if (type == "refused") return Refused{fields.text("reason"), fields.text("hint")};
  if (type == "probe") {
    return Probe{fields.texts("addresses", k_max_addresses), fields.integer("port", 1, 65535)};
  }
  if (type == "client_question") {
    return ClientQuestion{read_store_connection(fields.object("connection")),
                          static_cast<options::StoreAccess>(fields.integer("access", 0, 1))};
  }
  if (type == "status_question") return StatusQuestion{fields.count("question")};
  if (type == "start") {
    Start start{read_assignment(fields.object("assignment"))};
    constexpr int k_longest = static_cast<int>(options::k_longest_backoff.count());
    if (fields.has("pause")) start.pause = Milliseconds{fields.integer("pause", 0, k_longest)};
    return start;
  }
  if (type == "roster") return read_roster(fields);
  if (type == "standby") return Standby{};
  if (type == "stop") {
    return Stop{
        {fields.count("attempt")}, fields.integer("signal", 1, k_highest_signal), fields.flag("whole_tree")};
  }
  if (type == "finish") {
    return Finish{read_cause(fields.object("cause")), read_further_failures(fields, "others"),
                  fields.texts("remarks", k_max_remarks), fields.flag("report_here")};
  }
  return std::nullopt;
}

template <class Message, class Read>
std::variant<Message, CodecError> decode_any(std::string_view payload, const Read& read) {
  const Json json = read_json_text(payload);
  std::string problem;
  const Fields fields(json, problem);
  const std::string type = fields.text("type");
  const std::optional<Message> message = problem.empty() ? read(type, fields) : std::nullopt;
  if (!problem.empty()) return CodecError{"an invalid message: " + problem};
  if (!message) return CodecError{"a message of an unknown kind"};
  return *message;
}

}  // namespace

std::variant<AgentMessage, CodecError> decode_agent_message(std::string_view payload) {
  return decode_any<AgentMessage>(payload, read_agent_message);
}
std::variant<CoordinatorMessage, CodecError> decode_coordinator_message(std::string_view payload) {
  return decode_any<CoordinatorMessage>(payload, read_coordinator_message);
}

}  // namespace ddprun::rendezvous
