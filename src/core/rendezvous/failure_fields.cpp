#include <algorithm>
#include <array>

#include "rendezvous/codec.hpp"
#include "rendezvous/message_fields.hpp"

namespace ddprun::rendezvous {

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

}  // namespace ddprun::rendezvous
