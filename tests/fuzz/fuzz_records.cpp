// What ddprun writes and reads again, from files and sockets that others may have touched: events, status,
// parts of a log index.
#include "events/event.hpp"
#include "events/metrics.hpp"
#include "events/timeline.hpp"
#include "output/log_layout.hpp"
#include "promise.hpp"
#include "status/job_status.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void check_events(const std::string& text) {
  events::JobMetrics metrics;
  for (const std::string& line : split(text, '\n')) {
    const auto event = events::parse_event(line);
    if (!event) continue;
    metrics.note(*event);
    const std::string rendered = events::render_event(*event);
    require(rendered.ends_with('\n') && rendered.find('\n') == rendered.size() - 1);
    require(events::parse_event(rendered).has_value());
  }
  metrics.render();
  const events::Timeline timeline = events::make_timeline(text);
  fuzz::require_printable(events::render_timeline_text(timeline));
  events::render_timeline_html(timeline);
}

void check_status(const std::string& text) {
  if (const auto node = status::parse_node_status(text)) {
    require(status::parse_node_status(status::render_status(*node)) == node);
  }
  const auto job = status::parse_job_status(text);
  if (!job) return;
  require(status::parse_job_status(status::render_status(*job)) == job);
  fuzz::require_printable(status::render_status_table(*job, *job));
  status::render_status_json({*job}, {*job});
}

void check_index(const std::string& text) {
  const std::string merged =
      output::merge_index_parts("launch", {text, output::render_index_part("launch", {})});
  require(output::is_index_of("launch", merged));
  require(output::merge_index_parts("launch", {merged}) == merged);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  check_events(text);
  check_status(text);
  check_index(text);
  return 0;
}
