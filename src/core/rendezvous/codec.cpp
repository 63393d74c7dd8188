#include "rendezvous/codec.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/json_text.hpp"
#include "plan/node_proposal.hpp"
#include "profile/rank_profile.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr Milliseconds k_longest_silence = std::chrono::hours(24 * 365);
constexpr std::int64_t k_latest = std::numeric_limits<std::int64_t>::max() / 4;  // microseconds

void describe_launch_failure(Fields& fields, LaunchFailure& failure) {
  fields.value("what", failure.what);
  fields.value("rest", failure.rest);
  fields.value("names_host", failure.names_host);
  fields.value("hint", failure.hint);
  fields.value("exit_code", failure.exit_code, 1, k_highest_exit_code);
}

void describe_roll(Fields& fields, Roll& roll) {
  fields.value("number", roll.number, 1);
  fields.rows("agents", roll.agents, k_max_place_ranges, [](PlaceRange& range) {
    return std::vector{&range.first, &range.last};
  });
  int before = -1;
  for (const auto& [first, last] : roll.agents) {
    fields.check(first > before && last >= first && last < plan::k_max_agents, "agents", "are not in order");
    before = last;
  }
  fields.check(!roll.agents.empty(), "agents", "are none");
}

void describe_successor(Fields& fields, Successor& successor) {
  fields.value("place", successor.place);
  fields.value("host", successor.host);
  fields.value("addresses", successor.addresses, k_max_successor_addresses);
  fields.value("port", successor.port, 1, k_highest_port);
  fields.check(std::ranges::all_of(successor.addresses, is_address), "addresses", "are not numeric");
}

void describe_ending(Fields& fields, Ending& ending) {
  fields.value("signal", ending.signal, 1, k_highest_signal);
  fields.value("host", ending.host);
}

void describe_roster(Fields& fields, Roster& roster) {
  fields.value("rolls", roster.rolls, k_max_rolls, describe_roll);
  fields.check(std::ranges::is_sorted(roster.rolls, {}, &Roll::number), "rolls", "are not in order");
  fields.check(!roster.rolls.empty(), "rolls", "are none");
  fields.value("coordinator", roster.coordinator);
  fields.value("host", roster.host);
  fields.value("successors", roster.successors, k_max_successors, describe_successor);
  fields.value("attempt", roster.attempt);
  fields.value("used_restarts", roster.used_restarts);
  fields.value("launch_id", roster.launch_id);
  fields.value("own", roster.own, 0, plan::k_max_agents - 1);
  fields.optional("slot", roster.slot);
  fields.value("counts", roster.counts);
  fields.value("aside", roster.aside);
  fields.optional("ending", roster.ending, describe_ending);
}

void describe_stage_sources(Fields& fields, std::vector<staging::Server>& sources) {
  if (fields.has("stage_sources", !sources.empty()))
    fields.value("stage_sources", sources, k_max_stage_sources, describe_server);
}

void describe_survivor(Fields& fields, Survivor& survivor) {
  fields.value("roster", survivor.roster, describe_roster);
  fields.value("ended", survivor.ended, k_max_successors);
}

void describe_connection(Fields& fields, StoreConnection& connection) {
  fields.value("client", connection.client);
  fields.value("client_port", connection.client_port, 1, k_highest_port);
  fields.value("server", connection.server);
  fields.value("server_port", connection.server_port, 1, k_highest_port);
}

// Describes a part that is sent as its own text.
template <class Part>
void describe_text(Fields& fields, const char* name, Part& part, std::size_t limit,
                   std::string (*render)(const Part&), std::optional<Part> (*parse)(std::string_view),
                   const char* problem) {
  std::string text = fields.writes() ? render(part) : std::string();
  fields.value(name, text, fields.writes() ? text.size() : limit);
  if (fields.writes()) return;
  auto read = parse(text);
  if (fields.check(read.has_value(), name, problem)) part = std::move(*read);
}

// ---- agent to coordinator

void describe(Fields& fields, Join& join) {
  fields.value("announcement", join.announcement, describe_announcement);
  fields.value("version", join.version);
  fields.value("reached", join.reached);
  fields.value("agents", join.agents);
  fields.optional("failure", join.failure, describe_launch_failure);
  fields.optional("survivor", join.survivor, describe_survivor);
  fields.optional("checkpoints", join.checkpoints, describe_held);
}

void describe(Fields& fields, Probed& probed) {
  fields.value("reachable", probed.reachable, k_max_addresses);
  fields.value("failures", probed.failures, k_max_addresses);
}

void describe(Fields& fields, AttemptFailed& failed) {
  fields.value("attempt", failed.attempt);
  fields.value("failure", failed.failure, describe_first_failure);
  check_is_failure(fields, failed.failure);
}

void describe(Fields& fields, AttemptSucceeded& succeeded) { fields.value("attempt", succeeded.attempt); }

void describe_killed(Fields& fields, report::KilledRanks& killed) {
  fields.value("ranks", killed.ranks, options::k_max_workers);
  fields.value("host", killed.host);
  fields.value("signal", killed.signal, 1, k_highest_signal);
  fields.value("after", killed.after, 0, k_longest_silence.count());
  fields.value("place", killed.place);
}

void describe_unfit(Fields& fields, Unfit& unfit) {
  fields.optional("unfit", unfit.what);
  fields.optional("remedy", unfit.remedy);
  fields.optional("may_stay", unfit.may_stay);
}

void describe(Fields& fields, Stopped& stopped) {
  fields.value("attempt", stopped.attempt);
  fields.value("failures", stopped.failures, k_max_further_failures, describe_further_failure);
  fields.value("stopped", stopped.stopped, options::k_max_workers);
  fields.value("progressed", stopped.progressed);
  fields.value("finished", stopped.finished, options::k_max_workers);
  fields.value("finished_ago", stopped.finished_ago, options::k_max_workers);
  fields.optional("killed", stopped.killed, k_max_further_failures, describe_killed);
  describe_unfit(fields, stopped.unfit);
  fields.optional("checkpoints", stopped.checkpoints, describe_held);
}

void describe(Fields& fields, Stuck& stuck) { fields.value("attempt", stuck.attempt); }

void describe(Fields& fields, StopRequest& request) {
  fields.value("signal", request.signal, 1, k_highest_signal);
  fields.value("host", request.host);
  fields.value("whole_tree", request.whole_tree);
  fields.value("sender", request.sender);
  fields.optional("again", request.again);
}

void describe(Fields& fields, ClientVerdict& verdict) {
  fields.value("connection", verdict.connection, describe_connection);
  fields.value("holder", verdict.holder, Holder::own);
}

void describe(Fields& fields, Happened& happened) {
  describe_text(fields, "line", happened.event, events::k_max_event, events::render_event,
                events::parse_event, "is not an event");
}

void describe(Fields& fields, StatusAnswer& answer) {
  describe_text(fields, "node", answer.status, status::k_max_node_status, status::render_status,
                status::parse_node_status, "is not a status");
  fields.value("question", answer.question);
}

void describe(Fields& fields, Quiet& quiet) {
  fields.value("attempt", quiet.attempt);
  fields.value("quiet", quiet.quiet);
  fields.value("since", quiet.since, 0, k_longest_silence.count());
}

void describe(Fields& fields, EarlyExit& early) {
  fields.value("attempt", early.attempt);
  fields.value("rank", early.rank);
  fields.value("since", early.since, 0, k_longest_silence.count());
  fields.value("expired", early.expired);
}

void describe(Fields& fields, Modules& modules) { fields.value("names", modules.names, k_max_modules); }

void describe(Fields&, Alive&) {}

void describe(Fields& fields, JobQuestion& question) { fields.optional("stacks", question.stacks); }

void describe(Fields& fields, RosterTaken& taken) { fields.value("number", taken.number, 1); }

void describe(Fields& fields, lifeline::Output& output) {
  bool error = output.stream == lifeline::Stream::error;
  fields.value("error", error);
  output.stream = error ? lifeline::Stream::error : lifeline::Stream::output;
  fields.value("host", output.host);
}

void describe(Fields& fields, RestartRequest& request) {
  fields.value("number", request.number);
  fields.optional("drained", request.drained);
  fields.value("sender", request.sender);
}

void describe(Fields& fields, Looked& looked) {
  fields.value("attempt", looked.attempt);
  describe_unfit(fields, looked.unfit);
}

void describe(Fields& fields, ClockQuestion& question) { fields.value("asked", question.asked, 0, k_latest); }

void describe(Fields& fields, CollectivesSeen& seen) {
  fields.value("attempt", seen.attempt);
  fields.value("look", seen.look);
  describe_text(fields, "trace", seen.trace, slow::k_max_trace, slow::render_trace, slow::parse_trace,
                "is not a trace");
}

void describe(Fields& fields, CheckpointsHeld& message) { describe_held(fields, message.held); }

// ---- both ways

void describe(Fields& fields, ProfileRequest& request) {
  fields.value("number", request.number);
  fields.optional("asker", request.asker);
  fields.value("duration", request.duration, k_shortest_profile.count(), k_longest_profile.count());
  fields.value("limit", request.limit, profile::k_least_answer, profile::k_most_answer);
}

void describe(Fields& fields, ProfilePart& part) {
  fields.value("number", part.number);
  fields.optional("asker", part.asker);
  fields.optional("agents", part.agents);
  fields.optional("last", part.last);
  fields.optional("line", part.line, k_max_profile_part);
}

// ---- coordinator to agent

void describe(Fields& fields, Look& look) { fields.value("attempt", look.attempt); }

void describe(Fields& fields, ClockReply& reply) {
  fields.value("asked", reply.asked, 0, k_latest);
  fields.value("now", reply.now, 0, k_latest);
}

void describe(Fields& fields, RestartReply& reply) {
  fields.value("number", reply.number);
  fields.value("accepted", reply.accepted);
  fields.value("what", reply.what);
  fields.optional("hint", reply.hint);
}

void describe(Fields& fields, Refused& refused) {
  fields.value("reason", refused.reason);
  fields.value("hint", refused.hint);
}

void describe(Fields& fields, Probe& probe) {
  fields.value("addresses", probe.addresses, k_max_addresses);
  fields.value("port", probe.port, 1, k_highest_port);
}

void describe(Fields& fields, ClientQuestion& question) {
  fields.value("connection", question.connection, describe_connection);
  fields.value("access", question.access, options::StoreAccess::host);
}

void describe(Fields& fields, StatusQuestion& asked) {
  fields.value("question", asked.question);
  fields.optional("stacks", asked.stacks);
}

void describe(Fields& fields, NodeShown& shown) {
  describe_text(fields, "node", shown.node, status::k_max_node_status, status::render_status,
                status::parse_node_status, "is not a status");
  fields.optional("stacks", shown.stacks);
}

void describe(Fields& fields, JobShown& shown) {
  if (shown.job.silent.size() > k_max_silent) shown.job.silent.resize(k_max_silent);
  describe_text(fields, "job", shown.job, k_max_frame, status::render_status, status::parse_job_status,
                "is not a status");
  fields.optional("stacks", shown.stacks);
}

void describe(Fields& fields, Start& start) {
  fields.value("assignment", start.assignment, describe_assignment);
  fields.optional("pause", start.pause, 0, k_longest_start_pause.count());
  describe_stage_sources(fields, start.stage_sources);
  fields.optional("restore", start.restore, describe_restore);
}

void describe(Fields& fields, Standby& standby) { describe_stage_sources(fields, standby.stage_sources); }

void describe(Fields& fields, AliveQuestion& question) {
  fields.optional("grace", question.grace, 0, k_longest_silence.count());
}

void describe(Fields& fields, Warn& warn) {
  fields.value("attempt", warn.attempt);
  fields.value("signal", warn.signal, 1, k_highest_signal);
}

void describe(Fields& fields, Stop& stop) {
  fields.value("attempt", stop.attempt);
  fields.value("signal", stop.signal, 1, k_highest_signal);
  fields.value("whole_tree", stop.whole_tree);
  fields.optional("again", stop.again);
  fields.optional("failure", stop.failure, describe_further_failure);
}

void describe(Fields& fields, Finish& finish) {
  fields.value("cause", finish.cause, describe_cause);
  fields.value("others", finish.others, k_max_further_failures, describe_further_failure);
  fields.value("remarks", finish.remarks, k_max_remarks);
  fields.value("report_here", finish.report_here);
  fields.optional("drained", finish.drained);
}

void describe(Fields& fields, CheckpointOrder& message) { describe_order(fields, message.order); }

template <class Message>
struct Kind {
  const char* type;
  void (*describe)(Fields& fields, Message& message);
};

// Rows for each of AgentMessage, and for each of CoordinatorMessage.
constexpr std::tuple k_agent_kinds{Kind<Join>{"join", describe},
                                   Kind<Probed>{"probed", describe},
                                   Kind<AttemptFailed>{"failed", describe},
                                   Kind<AttemptSucceeded>{"succeeded", describe},
                                   Kind<Stopped>{"stopped", describe},
                                   Kind<Stuck>{"stuck", describe},
                                   Kind<StopRequest>{"stop_request", describe},
                                   Kind<ClientVerdict>{"client_verdict", describe},
                                   Kind<Happened>{"happened", describe},
                                   Kind<StatusAnswer>{"status", describe},
                                   Kind<Quiet>{"quiet", describe},
                                   Kind<EarlyExit>{"early_exit", describe},
                                   Kind<JobQuestion>{"job_question", describe},
                                   Kind<RosterTaken>{"roster_taken", describe},
                                   Kind<Modules>{"modules", describe},
                                   Kind<Alive>{"alive", describe},
                                   Kind<lifeline::Output>{"output", describe},
                                   Kind<RestartRequest>{"restart_request", describe},
                                   Kind<Looked>{"looked", describe},
                                   Kind<ProfileRequest>{"profile_request", describe},
                                   Kind<ProfilePart>{"profile_part", describe},
                                   Kind<ClockQuestion>{"clock_question", describe},
                                   Kind<CollectivesSeen>{"collectives_seen", describe},
                                   Kind<CheckpointsHeld>{"checkpoints", describe}};
constexpr std::tuple k_coordinator_kinds{Kind<Refused>{"refused", describe},
                                         Kind<Probe>{"probe", describe},
                                         Kind<ClientQuestion>{"client_question", describe},
                                         Kind<StatusQuestion>{"status_question", describe},
                                         Kind<NodeShown>{"node_shown", describe},
                                         Kind<JobShown>{"job_shown", describe},
                                         Kind<Roster>{"roster", describe_roster},
                                         Kind<Start>{"start", describe},
                                         Kind<Standby>{"standby", describe},
                                         Kind<Modules>{"modules", describe},
                                         Kind<AliveQuestion>{"alive_question", describe},
                                         Kind<Warn>{"warn", describe},
                                         Kind<Stop>{"stop", describe},
                                         Kind<Finish>{"finish", describe},
                                         Kind<RestartReply>{"restart_reply", describe},
                                         Kind<Look>{"look", describe},
                                         Kind<ProfileRequest>{"profile_request", describe},
                                         Kind<ProfilePart>{"profile_part", describe},
                                         Kind<ClockReply>{"clock_reply", describe},
                                         Kind<CheckpointOrder>{"checkpoint_order", describe}};

template <class Message, class Kinds>
std::string encode_any(Message message, const Kinds& kinds) {
  nlohmann::json json;
  Fields fields(json, k_max_text);
  const auto write = [&]<class Each>(Each& each) {
    const Kind<Each>& kind = std::get<Kind<Each>>(kinds);
    json["type"] = kind.type;
    kind.describe(fields, each);
  };
  std::visit(write, message);
  return make_frame(write_json_text(json));
}

template <class Message, class Kinds>
std::variant<Message, CodecError> decode_any(std::string_view payload, const Kinds& kinds) {
  const nlohmann::json json = read_json_text(payload);
  std::string problem, type;
  Fields fields(json, problem, k_max_text);
  fields.value("type", type);
  std::optional<Message> message;
  const auto read = [&]<class Each>(const Kind<Each>& kind) {
    if (fields.good() && type == kind.type) kind.describe(fields, message.emplace().template emplace<Each>());
  };
  std::apply([&](const auto&... kind) { (read(kind), ...); }, kinds);
  if (!problem.empty()) return CodecError{"an invalid message: " + problem};
  if (!message) return CodecError{"a message of an unknown kind"};
  return *std::move(message);
}

}  // namespace

std::string encode(const AgentMessage& message) { return encode_any(message, k_agent_kinds); }
std::string encode(const CoordinatorMessage& message) { return encode_any(message, k_coordinator_kinds); }

std::variant<AgentMessage, CodecError> decode_agent_message(std::string_view payload) {
  return decode_any<AgentMessage>(payload, k_agent_kinds);
}
std::variant<CoordinatorMessage, CodecError> decode_coordinator_message(std::string_view payload) {
  return decode_any<CoordinatorMessage>(payload, k_coordinator_kinds);
}

std::string make_frame(std::string_view payload) {
  std::string frame;
  frame.reserve(k_frame_header + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>(payload.size() >> shift & 0xffU));
  return frame.append(payload);
}

void FrameReader::append(std::string bytes) {
  if (buffer_.empty()) {
    buffer_ = std::move(bytes);
  } else {
    buffer_ += bytes;
  }
}

std::variant<std::monostate, std::string, CodecError> FrameReader::next() {
  if (buffer_.size() < k_frame_header) return std::monostate{};
  std::size_t length = 0;
  for (std::size_t i = 0; i < k_frame_header; ++i) {
    length = length << 8 | static_cast<unsigned char>(buffer_[i]);
  }
  if (length > k_max_frame) {
    return CodecError{fmt::format("a message of {} bytes, the limit is {}", length, k_max_frame)};
  }
  if (buffer_.size() - k_frame_header < length) return std::monostate{};
  const std::size_t end = k_frame_header + length;
  std::string rest = buffer_.substr(end);
  buffer_.resize(end);
  buffer_.erase(0, k_frame_header);
  return std::exchange(buffer_, std::move(rest));
}

}  // namespace ddprun::rendezvous
