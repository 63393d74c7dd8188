#include "ddprun/app/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace ddprun {

namespace {

constexpr const char* k_erase_line = "\r\x1b[K";

struct Log {
  std::shared_ptr<spdlog::logger> lines;           // "ddprun: " in front, a line end behind
  std::function<void(const std::string&)> writer;  // empty: `lines` writes
  bool terminal = false;
  bool status_shown = false;
};

Log& log() {
  static Log instance;
  if (!instance.lines) {
    instance.lines =
        std::make_shared<spdlog::logger>("ddprun", std::make_shared<spdlog::sinks::stderr_sink_st>());
    instance.lines->set_pattern("%v");
  }
  return instance;
}

void write(spdlog::level::level_enum level, const std::string& text) {
  Log& state = log();
  if (!state.lines->should_log(level)) return;
  const bool erase = std::exchange(state.status_shown, false);
  const std::string message = std::string(erase ? k_erase_line : "") + "ddprun: " + text;
  // One write a message: several processes may share this standard error.
  state.writer ? state.writer(message + "\n") : state.lines->log(level, message);
}

std::string with_hint(const std::string& what, const std::string& hint) {
  return hint.empty() ? what : what + "\nhint: " + hint;
}

}  // namespace

void set_up_log(Talk talk, bool stderr_is_terminal) {
  Log& state = log();
  state.terminal = stderr_is_terminal;
  state.lines->set_level(talk == Talk::quiet     ? spdlog::level::err
                         : talk == Talk::verbose ? spdlog::level::debug
                                                 : spdlog::level::info);
}

void say(const std::string& text) { write(spdlog::level::info, text); }
void say_detail(const std::string& text) { write(spdlog::level::debug, text); }
void say_notice(const std::string& what, const std::string& hint) {
  write(spdlog::level::warn, with_hint(what, hint));
}
void say_error(const std::string& what, const std::string& hint) {
  write(spdlog::level::err, with_hint(what, hint));
}

void route_log(std::function<void(const std::string& lines)> writer) { log().writer = std::move(writer); }

void show_status(const std::string& text) {
  Log& state = log();
  if (!state.terminal) return text.empty() ? void() : say(text);
  if (!state.lines->should_log(spdlog::level::info)) return;
  std::string line = state.status_shown ? k_erase_line : "";
  if (!text.empty()) line += "ddprun: " + text;
  std::fwrite(line.data(), 1, line.size(), stderr);
  state.status_shown = !text.empty();
}

}  // namespace ddprun
