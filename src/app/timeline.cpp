#include "timeline.hpp"

#include <fmt/format.h>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/events/timeline.hpp"
#include "ddprun/os/atomic_file.hpp"
#include "ddprun/os/read_file.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_events_limit = std::size_t{1} << 30U;

}  // namespace

std::string draw_timeline(const Options& options) {
  const std::string& path = options.timeline_file;
  const std::string events =
      path == "-" ? read_standard_input(k_events_limit) : read_file(path, k_events_limit);
  const Timeline timeline = make_timeline(events);
  if (timeline.from == 0) {
    throw UsageError(fmt::format("{} contains no ddprun events", printable(path)),
                     "give a file written by --events");
  }
  const std::string& output = options.output_file;
  if (output.empty() || output == "-") return render_timeline_text(timeline);
  const std::string why = replace_file(output, render_timeline_html(timeline));
  if (!why.empty()) {
    throw Error(fmt::format("cannot write {}: {}", printable(output), why), "name another file with -o");
  }
  return {};
}

}  // namespace ddprun
