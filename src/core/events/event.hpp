// Events of a job, as values.
// --events writes them, one JSON object a line; --metrics and --timeline are views of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::events {

enum class EventKind {
  begin,      // the coordinator starts to wait for the nodes
  joined,     // a node has joined
  refused,    // a process was refused
  plan,       // all nodes are there, and the ranks are given out
  attempt,    // all workers are being started
  start,      // a worker has been started
  output,     // a worker has written for the first time
  store,      // connected to the store: as many as there are workers, or the first
  exit,       // a worker has ended
  stop,       // all workers are told to stop
  lost,       // a node is lost
  hang,       // a rank hangs
  failed,     // a failure ended the attempt
  restart,    // another attempt follows
  end,        // the job is over
  asked,      // a restart was asked for
  unfit,      // a node is unfit for another attempt, and what follows
  slow,       // the other ranks wait for one, or all for a link
  waited,     // time that they waited for it
  checkpoint  // a step can be restored: from memory, or from the flush folder
};

// A field that does not apply is as it is here, and is left out of the line.
struct Event {
  EventKind kind = EventKind::begin;
  std::int64_t unix_milliseconds = 0;
  std::string host;
  std::string job;  // begin
  int attempt = -1;
  int rank = -1;
  int local_rank = -1;
  int pid = 0;
  int nodes = 0;
  int workers = 0;
  std::string gpu;
  std::int64_t step = -1;  // checkpoint
  std::optional<int> exit_code;
  std::string signal;             // "SIGSEGV"
  std::optional<double> seconds;  // since `begin`, or since the failure for an attempt after it
  std::string what;               // a sentence
  std::string hint;
  std::vector<std::string> lines;  // a worker's last ones
  friend bool operator==(const Event&, const Event&) = default;
};

inline constexpr std::size_t k_max_event = 16384;  // bytes of a line; what is longer loses its last lines

std::string name_of(EventKind kind);
// Renders one line with its end; text that is not UTF-8 is replaced.
std::string render_event(const Event& event);
// Returns nullopt for a line that is no event.
std::optional<Event> parse_event(std::string_view line);

}  // namespace ddprun::events
