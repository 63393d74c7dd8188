#include "console/console.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/system_failure.hpp"

namespace ddprun::console {

namespace {

constexpr const char* k_erase_line = "\r\x1b[K";
constexpr std::size_t k_longest_status = 4096;

struct Log {
  std::shared_ptr<spdlog::logger> lines;           // "ddprun: " in front, a line end behind
  std::function<void(const std::string&)> writer;  // empty: `lines` writes
  bool terminal = false;
  bool status_shown = false;
  std::string host;
  std::string said_by = "ddprun: ";  // and the program's name
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

// Writes the text, made printable: the writer of a part of it (a peer, a worker, a file) must not control the
// terminal.
void write(spdlog::level::level_enum level, const std::string& text) {
  Log& state = log();
  if (!state.lines->should_log(level)) return;
  const bool erase = std::exchange(state.status_shown, false);
  const std::string message = std::string(erase ? k_erase_line : "") + state.said_by + printable_lines(text);
  // Each message is one write: several processes may share this standard error.
  state.writer ? state.writer(message + "\n") : state.lines->log(level, message);
}

// Returns "14:03:22.120 n2: ": several hosts' details may end up in one log.
std::string time_and_host() {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  return fmt::format("{:%H:%M:%S}.{:03} {}: ", fmt::gmtime(seconds), now.time_since_epoch().count() % 1000,
                     log().host);
}

std::string with_hint(const std::string& what, const std::string& hint) {
  return hint.empty() ? what : what + "\nhint: " + hint;
}

}  // namespace

void set_up_log(Talk talk, bool stderr_is_terminal, const std::string& host, const std::string& program) {
  Log& state = log();
  state.terminal = stderr_is_terminal;
  state.host = host;
  if (!program.empty()) state.said_by = fmt::format("ddprun: {}: ", program);
  state.lines->set_level(talk == Talk::quiet     ? spdlog::level::err
                         : talk == Talk::verbose ? spdlog::level::debug
                                                 : spdlog::level::info);
}

void say(const std::string& text) { write(spdlog::level::info, text); }
void say_detail(const std::string& text) { write(spdlog::level::debug, time_and_host() + text); }
void say_notice(const std::string& what, const std::string& hint) {
  write(spdlog::level::warn, with_hint(what, hint));
}
void say_notice(const std::optional<allocation::Notice>& notice) {
  if (notice) say_notice(notice->what, notice->hint);
}

void say_error(const std::string& what, const std::string& hint) {
  write(spdlog::level::err, with_hint(what, hint));
}

void route_log(std::function<void(const std::string& lines)> writer) { log().writer = std::move(writer); }

void show_status(const std::string& text) {
  Log& state = log();
  if (!state.terminal) return text.empty() ? void() : say(text);
  if (!state.lines->should_log(spdlog::level::info) || (text.empty() && !state.status_shown)) return;
  std::string line = state.status_shown ? k_erase_line : "";
  if (!text.empty()) line += state.said_by + printable(text, k_longest_status);
  std::fwrite(line.data(), 1, line.size(), stderr);
  state.status_shown = !text.empty();
}

namespace {

bool was_closed = false;

}  // namespace

void note_standard_output() { was_closed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0; }

void print_text(const std::string& text) { print_data(printable_lines(text)); }

void print_data(const std::string& text) {
  if (was_closed) throw Error("cannot write to standard output: it is closed", "");
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw os::system_failure("cannot write to standard output", errno);
}

}  // namespace ddprun::console
