#include "codec_failure.hpp"

#include <algorithm>

namespace ddprun {

namespace {

constexpr int k_highest_errno = 4095;

using Json = nlohmann::json;

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

Json to_json(const ExitStatus& status) {
  return {{"kind", static_cast<int>(status.kind)},
          {"value", status.value},
          {"stage", cut(status.stage)},
          {"core", status.core_dumped}};
}

Json to_json(const Failure& failure, std::size_t text_limit, std::size_t line_limit) {
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
  if (!failure.log_file.empty()) json["log_file"] = cut(failure.log_file);
  if (failure.after_stop) json["after_stop"] = true;
  if (!failure.alike.empty()) json["alike"] = first_of(failure.alike, k_max_workers);
  return json;
}

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
  status.stage = fields.text("stage");
  status.core_dumped = fields.flag("core");
  return status;
}

Failure read_failure(const Fields& fields, std::size_t text_limit, std::size_t line_limit) {
  Failure failure;
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
  failure.log_file = optional_text("log_file");
  failure.after_stop = fields.has("after_stop") && fields.flag("after_stop");
  if (fields.has("alike")) failure.alike = fields.counts("alike", k_max_workers);
  return failure;
}

}  // namespace

nlohmann::json texts_to_json(const std::vector<std::string>& texts, std::size_t limit) {
  Json list = Json::array();
  for (const std::string& text : first_of(texts, limit)) list.push_back(cut(text));
  return list;
}

nlohmann::json first_failure(const Failure& failure) {
  return to_json(failure, k_max_failure_text, k_max_failure_lines);
}

nlohmann::json further_failures(const std::vector<Failure>& failures) {
  Json list = Json::array();
  for (const Failure& failure : first_of(failures, k_max_further_failures)) {
    list.push_back(to_json(failure, k_max_further_text, k_max_further_lines));
  }
  return list;
}

Failure read_first_failure(const Fields& fields) {
  return read_failure(fields, k_max_failure_text, k_max_failure_lines);
}

void check_is_failure(const Fields& fields, const Failure& failure) {
  if (failure.status.success()) fields.fail("\"failure\" is of a worker that succeeded");
}

std::vector<Failure> read_further_failures(const Fields& fields, const char* name) {
  std::vector<Failure> failures;
  for (const Fields& item : fields.objects(name, k_max_further_failures)) {
    failures.push_back(read_failure(item, k_max_further_text, k_max_further_lines));
    check_is_failure(fields, failures.back());
  }
  return failures;
}

}  // namespace ddprun
