#include "events/event.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/json_number.hpp"
#include "base/json_text.hpp"

namespace ddprun::events {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array k_names = {"begin", "joined", "refused", "plan", "attempt", "start",   "output",
                                "store", "exit",   "stop",    "lost", "failed",  "restart", "end"};

std::string dump(const Json& json) { return write_json_text(json) + "\n"; }

void set_text(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

void set_number(Json& json, const char* key, int value, int absent) {
  if (value != absent) json[key] = value;
}

Json to_json(const Event& event) {
  Json json = {{"time", static_cast<double>(event.unix_milliseconds) / 1000}, {"event", name_of(event.kind)}};
  set_text(json, "host", event.host);
  set_text(json, "job", event.job);
  set_number(json, "attempt", event.attempt, -1);
  set_number(json, "rank", event.rank, -1);
  set_number(json, "local_rank", event.local_rank, -1);
  set_number(json, "pid", event.pid, 0);
  set_number(json, "nodes", event.nodes, 0);
  set_number(json, "workers", event.workers, 0);
  set_text(json, "gpu", event.gpu);
  if (event.exit_code) json["exit_code"] = *event.exit_code;
  set_text(json, "signal", event.signal);
  if (event.seconds) json["seconds"] = *event.seconds;
  set_text(json, "what", event.what);
  set_text(json, "hint", event.hint);
  if (!event.lines.empty()) json["lines"] = event.lines;
  return json;
}

constexpr double k_latest = 1e12;  // seconds

[[noreturn]] void fail(const Json& json) { throw Json::other_error::create(501, "out of range", &json); }

template <class Value>
Value value_of(const Json& json) {
  if constexpr (std::is_same_v<Value, int>) {
    const auto number = whole_number<int>(json);
    if (!number) fail(json);
    return *number;
  } else {
    return json.get<Value>();
  }
}

template <class Value>
void take(const Json& json, const char* key, Value& value) {
  if (const auto found = json.find(key); found != json.end()) value = value_of<Value>(*found);
}

template <class Value>
void take(const Json& json, const char* key, std::optional<Value>& value) {
  if (const auto found = json.find(key); found != json.end()) value = value_of<Value>(*found);
}

std::int64_t milliseconds(const Json& json) {
  const auto seconds = json.get<double>();
  if (!(seconds >= 0 && seconds < k_latest)) fail(json);
  return std::llround(seconds * 1000);
}

// Throws what nlohmann throws where a value has another type or is no number of ours.
Event read(const Json& json, EventKind kind) {
  Event event;
  event.kind = kind;
  event.unix_milliseconds = milliseconds(json.at("time"));
  take(json, "host", event.host);
  take(json, "job", event.job);
  take(json, "attempt", event.attempt);
  take(json, "rank", event.rank);
  take(json, "local_rank", event.local_rank);
  take(json, "pid", event.pid);
  take(json, "nodes", event.nodes);
  take(json, "workers", event.workers);
  take(json, "gpu", event.gpu);
  take(json, "exit_code", event.exit_code);
  take(json, "signal", event.signal);
  take(json, "seconds", event.seconds);
  take(json, "what", event.what);
  take(json, "hint", event.hint);
  take(json, "lines", event.lines);
  return event;
}

}  // namespace

std::string name_of(EventKind kind) { return k_names.at(static_cast<std::size_t>(kind)); }

std::string render_event(const Event& event) {
  std::string line = dump(to_json(event));
  if (line.size() <= k_max_event) return line;
  Event shorter = event;
  shorter.lines.clear();
  shorter.what.resize(std::min(shorter.what.size(), std::size_t{1024}));
  return dump(to_json(shorter));
}

std::optional<Event> parse_event(std::string_view line) {
  const Json json = read_ordered_json_text(line);
  if (!json.is_object()) return std::nullopt;
  try {
    const auto* const name = std::find(k_names.begin(), k_names.end(), json.at("event").get<std::string>());
    if (name == k_names.end()) return std::nullopt;
    return read(json, static_cast<EventKind>(name - k_names.begin()));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddprun::events
