#include "console/log.hpp"

#include <fmt/chrono.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.hpp"

namespace ddprun::console {

namespace {

constexpr const char* k_erase_line = "\r\x1b[K";
constexpr std::size_t k_longest_status = 4096;

struct Log {
  Talk talk = Talk::normal;
  std::function<void(const std::string&)> writer;  // empty: standard error
  bool terminal = false;
  bool status_shown = false;
  std::string host;
};

Log& log() {
  static Log instance;
  return instance;
}

// In one write: several processes may share this standard error.
void write_error(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

// For those who want ddprun to talk so much, or more. Whoever wrote a part of it (a peer, a worker, a file)
// must not drive the terminal.
void write(Talk least, const std::string& text) {
  Log& state = log();
  if (state.talk < least) return;
  const bool erase = std::exchange(state.status_shown, false);
  const std::string lines =
      std::string(erase ? k_erase_line : "") + "ddprun: " + printable_lines(text) + "\n";
  state.writer ? state.writer(lines) : write_error(lines);
}

// "14:03:22.120 n2: ": several hosts' details may end up in one log.
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

void set_up_log(Talk talk, bool stderr_is_terminal, const std::string& host) {
  Log& state = log();
  state.talk = talk;
  state.terminal = stderr_is_terminal;
  state.host = host;
}

void say(const std::string& text) { write(Talk::normal, text); }
void say_detail(const std::string& text) { write(Talk::verbose, time_and_host() + text); }
void say_notice(const std::string& what, const std::string& hint) {
  write(Talk::normal, with_hint(what, hint));
}
void say_error(const std::string& what, const std::string& hint) {
  write(Talk::quiet, with_hint(what, hint));
}

void route_log(std::function<void(const std::string& lines)> writer) { log().writer = std::move(writer); }

void show_status(const std::string& text) {
  Log& state = log();
  if (!state.terminal) return text.empty() ? void() : say(text);
  if (state.talk < Talk::normal || (text.empty() && !state.status_shown)) return;
  std::string line = state.status_shown ? k_erase_line : "";
  if (!text.empty()) line += "ddprun: " + printable(text, k_longest_status);
  write_error(line);
  state.status_shown = !text.empty();
}

}  // namespace ddprun::console
