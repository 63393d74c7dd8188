#include "events/event.hpp"

#include <algorithm>
#include <array>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"

namespace ddprun::events {

namespace {

using Fields = OrderedFields;

constexpr std::array k_names = {"begin", "joined", "refused", "plan", "attempt", "start",     "output",
                                "store", "exit",   "stop",    "lost", "hang",    "failed",    "restart",
                                "end",   "asked",  "unfit",   "slow", "waited",  "checkpoint"};

void describe(Fields& fields, Event& event) {
  Milliseconds time{event.unix_milliseconds};
  fields.seconds("time", time);
  event.unix_milliseconds = time.count();
  std::string name = name_of(event.kind);
  fields.value("event", name);
  const auto* const found = std::ranges::find(k_names, name);
  if (fields.check(found != k_names.end(), "event", "is not known"))
    event.kind = static_cast<EventKind>(found - k_names.begin());
  fields.optional("host", event.host);
  fields.optional("job", event.job);
  fields.unless(-1, "attempt", event.attempt);
  fields.unless(-1, "rank", event.rank);
  fields.unless(-1, "local_rank", event.local_rank);
  fields.optional("pid", event.pid);
  fields.optional("nodes", event.nodes);
  fields.optional("workers", event.workers);
  fields.optional("gpu", event.gpu);
  fields.unless(std::int64_t{-1}, "step", event.step);
  fields.optional("exit_code", event.exit_code);
  fields.optional("signal", event.signal);
  fields.optional("seconds", event.seconds);
  fields.optional("what", event.what);
  fields.optional("hint", event.hint);
  fields.optional("lines", event.lines, Fields::k_unlimited);
}

std::string line_of(const Event& event) { return write_json_text(write_fields(event, describe)) + "\n"; }

}  // namespace

std::string name_of(EventKind kind) { return k_names.at(static_cast<std::size_t>(kind)); }

std::string render_event(const Event& event) {
  std::string line = line_of(event);
  if (line.size() <= k_max_event) return line;
  Event shorter = event;
  shorter.lines.clear();
  shorter.what.resize(std::min(shorter.what.size(), std::size_t{1024}));
  return line_of(shorter);
}

std::optional<Event> parse_event(std::string_view line) {
  return read_fields<Event>(read_ordered_json_text(line), describe);
}

}  // namespace ddprun::events
