// A run as a picture: who ran where and when, from the events of its file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "events/event.hpp"

namespace ddprun::events {

struct TimelineBar {
  int attempt = 0;
  std::int64_t from = 0;  // Unix milliseconds, like all times here
  std::int64_t until = 0;
  std::optional<std::int64_t> first_output;
  bool ended = false;    // false: still ran at the end of the file
  bool failed = false;   // cause of the end of its attempt
  bool stopped = false;  // ended badly after another
  std::string what;      // end, in words
  std::vector<std::string> lines;
  std::vector<std::int64_t> hung;  // when it was found to hang
};

struct TimelineRow {  // one rank
  int rank = 0;
  int local_rank = 0;
  std::string gpu;
  std::vector<TimelineBar> bars;  // one an attempt
};

struct TimelineHost {
  std::string name;
  std::int64_t joined = 0;
  std::string lost;  // reason of its loss
  std::int64_t lost_at = 0;
  std::vector<TimelineRow> rows;  // sorted by rank
  bool failed() const;
};

struct Timeline {
  std::string job;
  std::int64_t from = 0;
  std::int64_t until = 0;
  int workers = 0;
  std::vector<Event> marks;         // attempts, hangs, stops, restarts, the end: in the order of the file
  std::vector<TimelineHost> hosts;  // sorted by their lowest rank
  std::string end;                  // end of the job; empty: the file does not say
  int exit_code = 0;
};

// Makes the timeline of the file's last job. Lines that are no events are left out.
Timeline make_timeline(std::string_view events);

// Renders one page without scripts or anything from elsewhere: hosts with their ranks, folded if they are
// many.
std::string render_timeline_html(const Timeline& timeline);
// Renders the same in 100 columns.
std::string render_timeline_text(const Timeline& timeline);

// Returns "03:07", "1:02:03" since the beginning.
std::string describe_moment(std::int64_t milliseconds);

}  // namespace ddprun::events
