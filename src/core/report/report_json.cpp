// A job's end for programs: --report FILE, and torch's error files, a worker's and that of a launcher around
// ddprun.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "options/options.hpp"
#include "report/report.hpp"

namespace ddprun::report {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array k_kinds = {"succeeded", "worker_failed", "stopped_by_signal",
                                "node_lost", "deadline",      "launcher_failed"};

OrderedJson or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

std::string dump(const OrderedJson& json, int indent) { return write_json_text(json, indent) + "\n"; }

OrderedJson exit_code_json(const ExitStatus& status) {
  return status.kind == ExitStatus::Kind::exited ? OrderedJson(status.value) : OrderedJson();
}

OrderedJson signal_json(const ExitStatus& status) {
  return status.kind == ExitStatus::Kind::signalled ? OrderedJson(options::signal_name(status.value))
                                                    : OrderedJson();
}

OrderedJson to_short_json(const Failure& failure) {
  return {{"what", describe(failure)},
          {"host", failure.host},
          {"rank", failure.rank.value},
          {"attempt", failure.attempt.value},
          {"time", static_cast<double>(failure.unix_milliseconds) / 1000},
          {"exit_code", exit_code_json(failure.status)},
          {"signal", signal_json(failure.status)}};
}

OrderedJson to_json(const Hang& hang) {
  return {{"what", hang.what},
          {"host", hang.host},
          {"rank", hang.rank},
          {"attempt", hang.attempt},
          {"time", static_cast<double>(hang.unix_milliseconds) / 1000},
          {"hint", or_null(hang.hint)}};
}

OrderedJson to_json(const std::optional<Requeuing>& requeuing) {
  if (!requeuing) return {};
  return {{"asked", requeuing->asked},
          {"what", or_null(requeuing->what)},
          {"refusal", or_null(requeuing->refusal)}};
}

OrderedJson to_json(const Failure& failure) {
  const ExitStatus& status = failure.status;
  return {{"what", describe(failure)},
          {"host", failure.host},
          {"rank", failure.rank.value},
          {"local_rank", failure.local_rank.value},
          {"pid", failure.pid},
          {"gpu", or_null(failure.gpu)},
          {"attempt", failure.attempt.value},
          {"time", static_cast<double>(failure.unix_milliseconds) / 1000},
          {"started", status.kind != ExitStatus::Kind::not_started},
          {"exit_code", exit_code_json(status)},
          {"signal", signal_json(status)},
          {"core_dumped", status.core_dumped},
          {"out_of_memory", or_null(failure.out_of_memory)},
          {"error", or_null(failure.message)},
          {"last_lines", failure.last_lines},
          {"collective", or_null(failure.collective)},
          {"environment", or_null(failure.environment)},
          {"log_file", or_null(failure.log_file)},
          {"hint", or_null(failure.hint)},
          {"ranks_alike", failure.alike}};
}

OrderedJson to_json(const KilledRanks& killed) {
  return {{"what", describe(killed)},
          {"ranks", killed.ranks},
          {"host", killed.host},
          {"signal", options::signal_name(killed.signal)},
          {"seconds", static_cast<double>(killed.after.count()) / 1000},
          {"place", or_null(killed.place)}};
}

using Json = nlohmann::json;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace

std::string render_check_input(Attempt attempt, const std::string& node,
                               const std::optional<Failure>& failure) {
  return dump({{"version", 1},
               {"attempt", attempt.value},
               {"node", node},
               {"failure", failure ? to_json(*failure) : OrderedJson()}},
              -1);
}

std::string render_report_json(const JobEnd& end) {
  const Cause& cause = end.cause;
  const bool failed_worker = cause.kind == Cause::Kind::worker_failed;
  const bool failed = failed_worker || !cause.failure.host.empty();
  OrderedJson others = OrderedJson::array();
  for (const Failure& other : end.others) others.push_back(to_json(other));
  OrderedJson killed = OrderedJson::array();
  for (const KilledRanks& each : end.killed) killed.push_back(to_json(each));
  OrderedJson restarted = OrderedJson::array();
  for (const Failure& each : end.restarted) restarted.push_back(to_short_json(each));
  OrderedJson hangs = OrderedJson::array();
  for (const Hang& each : end.hangs) hangs.push_back(to_json(each));
  return dump({{"version", 1},
               {"job", end.job},
               {"result", k_kinds.at(static_cast<std::size_t>(cause.kind))},
               {"what", describe(cause)},
               {"exit_code", exit_code_of(cause)},
               {"host", end.host},
               {"nodes", end.nodes},
               {"world_size", end.world_size},
               {"attempts", end.attempts},
               {"restarts", end.restarts},
               {"max_restarts", end.max_restarts},
               {"restarted_after", restarted},
               {"not_restarted", failed_worker ? or_null(cause.detail) : OrderedJson()},
               {"began", static_cast<double>(end.began) / 1000},
               {"ended", static_cast<double>(end.ended) / 1000},
               {"failure", failed ? to_json(cause.failure) : OrderedJson()},
               {"other_failures", others},
               {"stopped_ranks", end.victims},
               {"hangs", hangs},
               {"killed_ranks", killed},
               {"scheduler_restarts", end.scheduler_restarts},
               {"requeue", to_json(end.requeuing)},
               {"remarks", end.remarks},
               {"hint", or_null(cause.hint)}},
              2);
}

namespace {

// "ValueError: bad" of a traceback as Python prints it: what follows the last frame, with the type's name
// alone as torch writes it. Whole where there is no frame.
std::string error_of_traceback(const std::string& traceback) {
  const std::vector<std::string> lines = split(traceback, '\n');
  const auto is_frame = [](const std::string& line) { return line.starts_with("  File \""); };
  const auto frame = std::find_if(lines.rbegin(), lines.rend(), is_frame).base();
  if (frame == lines.begin()) return std::string(trim(traceback));
  const auto error =
      std::find_if(frame, lines.end(), [](const std::string& line) { return !line.starts_with("    "); });
  std::string text(trim(join({error, lines.end()}, "\n")));
  const std::size_t end = text.find_first_of(": \n");
  const std::size_t dot = text.substr(0, end).rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

}  // namespace

std::string render_error_file(const Cause& cause) {
  const Failure& failure = cause.failure;
  const std::string own = error_of_traceback(failure.message);
  std::string traceback = failure.message.empty() ? join(failure.last_lines, "\n") : failure.message;
  const std::string seconds = std::to_string(failure.unix_milliseconds / 1000);
  // The traceback explains a worker's failure better than a description.
  const bool by_worker = cause.kind == Cause::Kind::worker_failed;
  const std::string described = describe(cause);
  const std::string hint = by_worker || cause.hint.empty() ? "" : "\nhint: " + cause.hint;
  const OrderedJson extra = {{"py_callstack", std::move(traceback)}, {"timestamp", seconds}};
  const OrderedJson message = {{"message", by_worker && !own.empty() ? own : described + hint},
                               {"errorCode", exit_code_of(cause)},
                               {"extraInfo", extra}};
  return dump({{"message", message}}, -1);
}

std::string parse_error_file(const std::string& text) {
  const Json json = read_json_text(text);
  const Json* message = find(json, "message");
  if (message == nullptr) return {};
  if (message->is_string()) return text_of(message);
  if (const Json* extra = find(*message, "extraInfo")) {
    if (std::string traceback = text_of(find(*extra, "py_callstack")); !traceback.empty()) return traceback;
  }
  return text_of(find(*message, "message"));
}

}  // namespace ddprun::report
