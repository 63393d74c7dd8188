// Where the workers' output goes.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/option_setters.hpp"
#include "output/line_label.hpp"
#include "output/log_layout.hpp"

namespace ddprun::command_line::setters {

void redirects(Draft& draft, const Given& given) {
  draft.options.output.redirects = output::parse_stream_choice(given.value, given.origin);
}

void tee(Draft& draft, const Given& given) {
  draft.options.output.tee = output::parse_stream_choice(given.value, given.origin);
}

void log_dir(Draft& draft, const Given& given) { draft.options.output.log_dir = given; }

void local_ranks_filter(Draft& draft, const Given& given) {
  if (given.value.empty()) return;
  draft.options.output.local_ranks = output::parse_rank_list(given.value, given.origin);
}

void duplicate_output_filters(Draft& draft, const Given& given) {
  draft.options.output.output_filters = output::parse_line_filters(given.value);
}

void duplicate_error_filters(Draft& draft, const Given& given) {
  draft.options.output.error_filters = output::parse_line_filters(given.value);
}

void log_line_prefix(Draft& draft, const Given& given) { draft.options.output.prefix_template = given; }

void logs(Draft& draft, const Given& given) {
  if (given.value.empty()) throw UsageError(given.origin + " names no folder", "give the path of a folder");
  draft.options.output.logs = given;
}

void label(Draft& draft, const Given& given) {
  output::make_label(given.value, {}, false, given.origin);
  draft.options.output.label = given;
}

void ranks(Draft& draft, const Given& given) {
  draft.options.output.ranks = output::parse_rank_ranges(given.value, given.origin);
}

void fold(Draft& draft, const Given& given) {
  if (given.value != "on" && given.value != "off")
    throw UsageError(fmt::format("{} is neither on nor off: '{}'", given.origin, printable(given.value)),
                     "--fold alone means on");
  draft.options.output.fold = given.value == "on" ? output::Folding::on : output::Folding::off;
}

void output_rate(Draft& draft, const Given& given) {
  draft.options.output.rate = output::parse_rate(given.value, given.origin);
}

void log_compress(Draft& draft, const Given& given) {
  if (given.value != "zstd" && given.value != "none")
    throw UsageError(fmt::format("{} is neither zstd nor none: '{}'", given.origin, printable(given.value)),
                     "zstd is the only format");
  draft.options.output.compress = given.value == "zstd";
}

void gather(Draft& draft, const Given&) { draft.options.output.gather = true; }
void timestamps(Draft& draft, const Given&) { draft.options.output.timestamps = true; }

void log_rotate(Draft& draft, const Given& given) {
  draft.options.output.rotation = output::parse_rotation(given.value, given.origin);
}

}  // namespace ddprun::command_line::setters
