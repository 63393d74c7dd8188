#include "commands/timeline.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/capture.hpp"
#include "events/timeline.hpp"
#include "os/read_file.hpp"

namespace ddprun::commands {

namespace {

constexpr std::size_t k_events_limit = std::size_t{1} << 30U;

}  // namespace

std::string draw_timeline(const options::Options& options) {
  const std::string& path = options.timeline_file;
  const std::string events =
      path == "-" ? os::read_standard_input(k_events_limit) : os::read_file(path, k_events_limit);
  const events::Timeline timeline = events::make_timeline(events);
  if (timeline.from == 0) {
    throw UsageError(fmt::format("{} contains no ddprun events", printable(path)),
                     "give a file written by --events");
  }
  const std::string& output = options.output_file;
  if (output.empty() || output == "-") return events::render_timeline_text(timeline);
  write_file(output, events::render_timeline_html(timeline), "name another file with -o");
  return {};
}

}  // namespace ddprun::commands
