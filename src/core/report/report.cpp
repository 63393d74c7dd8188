#include "report/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "options/options.hpp"

namespace ddprun::report {

namespace {

constexpr std::size_t k_line_width = 400;
constexpr std::size_t k_message_lines = 30;
constexpr std::size_t k_restart_causes = 8;

std::string describe_time(std::int64_t unix_milliseconds) {
  const auto seconds = static_cast<std::time_t>(unix_milliseconds / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

std::string details(const Failure& failure, const UsedRestarts& restarts) {
  std::string text = fmt::format("  {}", failure.program);
  if (failure.pid > 0) text += fmt::format(", pid {}", failure.pid);
  if (failure.unix_milliseconds > 0) text += ", ended " + describe_time(failure.unix_milliseconds);
  if (failure.local_rank.value != failure.rank.value)
    text += fmt::format(", local rank {}", failure.local_rank.value);
  if (!failure.gpu.empty()) text += ", GPU " + printable(failure.gpu);
  if (failure.attempt.value > 0)
    text += ", " + describe_attempt(failure.attempt.value, restarts.used, restarts.most);
  text += "\n";
  if (!failure.environment.empty())
    text += fmt::format("  {}\n", printable(failure.environment, k_line_width));
  if (!failure.out_of_memory.empty())
    text += fmt::format("  out of memory: {}\n", printable(failure.out_of_memory));
  if (!failure.log_file.empty())
    text += fmt::format("  its output is in {}\n", printable(failure.log_file, k_line_width));
  return text;
}

std::string quoted_block(const std::string& heading, const std::vector<std::string>& lines) {
  const auto last =
      std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) { return !trim(line).empty(); });
  if (last == lines.rend()) return {};
  std::string text = "  " + heading + "\n";
  for (auto line = lines.begin(); line != last.base(); ++line)
    text += "  | " + printable(*line, k_line_width) + "\n";
  return text;
}

// Returns the last lines of it, since a traceback ends with its exception; says so if others were before.
std::string quoted_message(const Failure& failure) {
  // The first line may be indented.
  const std::size_t end = failure.message.find_last_not_of(" \t\r\n") + 1;
  std::vector<std::string> lines = split(failure.message.substr(0, end), '\n');
  std::size_t cut = failure.message_cut;
  if (lines.size() > k_message_lines) {
    const auto kept = lines.end() - static_cast<std::ptrdiff_t>(k_message_lines);
    for (auto line = lines.begin(); line != kept; ++line) cut += line->size() + 1;
    lines.erase(lines.begin(), kept);
  }
  if (cut > 0) lines.insert(lines.begin(), fmt::format("[... {} bytes cut]", cut));
  const bool hung = failure.status.kind == ExitStatus::Kind::hung;
  return quoted_block(hung ? "where the ranks are:" : "its error:", lines);
}

// Returns "rank 0 on n1 exited with code 1 (attempts 0-2)": each one once, as long as they follow one
// another.
std::vector<std::string> describe_alike(const std::vector<Failure>& failures) {
  std::vector<std::string> texts;
  for (auto next = failures.begin(); next != failures.end();) {
    const std::string text = describe(*next);
    std::vector<int> attempts;
    for (; next != failures.end() && describe(*next) == text; ++next) attempts.push_back(next->attempt.value);
    texts.push_back(fmt::format("{} (attempt{} {})", text, attempts.size() == 1 ? "" : "s",
                                facts::render_cpu_list(attempts)));
  }
  return texts;
}

}  // namespace

std::string render_report(const Cause& cause, const UsedRestarts& restarts) {
  if (cause.kind == Cause::Kind::success) return {};
  std::string text = describe(cause) + "\n";
  const Failure& failure = cause.failure;
  if (cause.kind != Cause::Kind::worker_failed) {
    if (failure.host.empty()) return text;
    text += fmt::format("  before that, {}\n", describe(failure));
  }
  text += details(failure, restarts);
  // A worker that wrote an error file has its traceback there; its last lines would say the same again.
  text +=
      failure.message.empty() ? quoted_block("its last lines:", failure.last_lines) : quoted_message(failure);
  if (!failure.hint.empty()) text += "  hint: " + printable(failure.hint, k_line_width) + "\n";
  if (!failure.alike.empty()) text += fmt::format("  {} ended in the same way\n", name_ranks(failure.alike));
  return text;
}

std::string describe(const Hang& hang) {
  return fmt::format("found at {}, after which the job went on: {}", describe_time(hang.unix_milliseconds),
                     printable(hang.what, k_line_width));
}

std::string describe_wait_after_key(Milliseconds grace) {
  return fmt::format("waiting up to {} for the workers to stop; ^C again kills them",
                     describe_duration(grace));
}

std::string name_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + facts::render_cpu_list(ranks);
}

std::string render_others(const std::vector<Failure>& others, const std::vector<int>& victims) {
  std::string text;
  for (const Failure& other : others) {
    text += "\n  also: " + describe(other);
    if (!other.alike.empty()) text += fmt::format(", and {} in the same way", name_ranks(other.alike));
  }
  if (!victims.empty()) text += fmt::format("\n  {} stopped because of it", name_ranks(victims));
  return text;
}

std::string describe_running(const std::vector<int>& running, int world_size) {
  std::vector<int> ended;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!std::ranges::binary_search(running, rank)) ended.push_back(rank);
  }
  const char* const were = running.size() == 1 ? "was" : "were";
  if (ended.empty())
    return world_size == 1 ? "rank 0 was running" : fmt::format("all {} ranks were running", world_size);
  if (running.empty())
    return world_size == 1 ? "rank 0 had ended" : fmt::format("all {} ranks had ended", world_size);
  return fmt::format("{} had ended, {} {} running", name_ranks(ended), name_ranks(running), were);
}

std::string render_restarts(const UsedRestarts& restarts, const Cause& cause) {
  if (cause.kind == Cause::Kind::success) return {};
  std::string text;
  if (restarts.used > 0) {
    std::vector<std::string> causes = describe_alike(restarts.causes);
    std::string heading = fmt::format("\n  {} of {} restarts used", restarts.used, restarts.most);
    if (causes.size() > k_restart_causes ||
        restarts.causes.size() < static_cast<std::size_t>(restarts.used)) {
      const std::size_t shown = std::min(causes.size(), k_restart_causes);
      causes.erase(causes.begin(), causes.end() - static_cast<std::ptrdiff_t>(shown));
      if (!causes.empty()) heading += ", at last";
    }
    // The restarts made by an earlier coordinator are only counted.
    text += heading + (causes.empty() ? "" : ": " + join(causes, ", "));
  }
  if (cause.kind == Cause::Kind::worker_failed && !cause.detail.empty())
    text += "\n  not restarted: " + printable(cause.detail, k_line_width);
  return text;
}

std::string describe_restart(const Failure& cause, Milliseconds delay) {
  const std::string when = delay > Milliseconds{0} ? " in " + describe_duration(delay) : "";
  return fmt::format("{}; starting all workers again{}", describe(cause), when);
}

std::string render_restart(const Failure& cause, int number, int max_restarts, Milliseconds delay) {
  const std::string text =
      fmt::format("{} (restart {} of {})", describe_restart(cause, delay), number, max_restarts);
  return cause.status.kind == ExitStatus::Kind::hung ? text + "\n" + std::string(trim(quoted_message(cause)))
                                                     : text;
}

// A job's end for programs: --report FILE, and torch's error files, a worker's and that of a launcher around
// ddprun.

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

std::string describe(const KilledRanks& killed) {
  const bool one = killed.ranks.size() == 1;
  const auto after = std::chrono::round<std::chrono::seconds>(killed.after);
  std::string text =
      fmt::format("{} on {} {} killed {} after {}", name_ranks(killed.ranks), killed.host,
                  one ? "was" : "were", describe_duration(after), options::signal_name(killed.signal));
  if (killed.place.empty()) return text;
  const std::string is = "is ";
  const std::string place =
      killed.place.starts_with(is) ? "was " + killed.place.substr(is.size()) : killed.place;
  return text +
         fmt::format("; {} {}", one ? "it" : name_ranks({killed.ranks.front()}), printable(place, 400));
}

std::vector<KilledRanks> fold_alike(std::vector<KilledRanks> killed) {
  std::vector<KilledRanks> folded;
  for (KilledRanks& each : killed) {
    const auto found = std::ranges::find_if(folded, [&](const KilledRanks& known) {
      return known.host == each.host && known.signal == each.signal && known.place == each.place;
    });
    if (found == folded.end()) {
      folded.push_back(std::move(each));
    } else {
      found->ranks.insert(found->ranks.end(), each.ranks.begin(), each.ranks.end());
      std::ranges::sort(found->ranks);
    }
  }
  return folded;
}

}  // namespace ddprun::report
