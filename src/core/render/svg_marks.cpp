#include "render/svg_marks.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "render/node_words.hpp"

namespace ddprun::render {

namespace {

constexpr std::array<const char*, 8> k_colours{"#77aadd", "#ee8866", "#eedd88", "#ffaabb",
                                               "#99ddff", "#44bb99", "#bbcc33", "#aaaa00"};

constexpr const char* k_head =
    "<style>\n"
    "text{font-family:sans-serif;font-size:11px;fill:#222}\n"
    ".heading{font-size:14px;font-weight:bold}\n"
    ".name{font-weight:bold}\n"
    ".faint{fill:#666}\n"
    ".symbol{font-family:monospace;text-anchor:middle}\n"
    ".tiny{font-family:monospace;font-size:8px;text-anchor:middle}\n"
    ".light{font-family:monospace;text-anchor:middle;fill:#fff}\n"
    ".pale{fill:#fff}\n"
    ".page{fill:#fff}\n"
    ".package{fill:#f7f7f7;stroke:#444;stroke-width:1.5}\n"
    ".node{fill:#fff;stroke:#888}\n"
    ".memory{fill:#fff;stroke:#888;stroke-dasharray:4 3}\n"
    ".cache{fill:none;stroke:#aaa}\n"
    ".pair{stroke-width:3;stroke-linecap:round}\n"
    ".edge{stroke-width:5;stroke-linecap:round}\n"
    ".held{stroke:#555}\n"
    ".hatch{stroke:none}\n"
    ".several{fill:#444;stroke:#444}\n"
    ".spare{fill:#f2f2f2;stroke:#bbb}\n"
    ".elsewhere{fill:#fff;stroke:#bbb;stroke-dasharray:2 2}\n"
    ".forbidden{fill:#bbb;stroke:#999}\n"
    ".frame{fill:none;stroke:#555}\n"
    "</style>\n"
    "<defs>\n"
    "<pattern id=\"hatch1\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 6L6 0\" "
    "stroke=\"#000\" stroke-opacity=\"0.3\"/></pattern>\n"
    "<pattern id=\"hatch2\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 1H4\" "
    "stroke=\"#000\" stroke-opacity=\"0.25\"/></pattern>\n"
    "<pattern id=\"hatch3\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><circle cx=\"2\" "
    "cy=\"2\" r=\"0.9\" fill=\"#000\" fill-opacity=\"0.3\"/></pattern>\n"
    "</defs>\n";

}  // namespace

void SvgWriter::rectangle(const Frame& frame, std::string_view css, std::string_view fill) {
  const std::string style = fill.empty() ? "" : fmt::format(" style=\"fill:{}\"", escape_markup(fill));
  body_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>\n",
                       escape_markup(css), frame.x, frame.y, frame.width, frame.height, style);
}

void SvgWriter::line(int from_x, int from_y, int to_x, int to_y, std::string_view css,
                     std::string_view colour) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" style=\"stroke:{}\"/>\n",
                       escape_markup(css), from_x, from_y, to_x, to_y, escape_markup(colour));
}

void SvgWriter::text(int x, int y, std::string_view css, std::string_view text) {
  body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", escape_markup(css), x, y,
                       escape_markup(text));
}

void SvgWriter::open_group(std::string_view title) {
  body_ += fmt::format("<g><title>{}</title>\n", escape_markup(title));
}

void SvgWriter::close_group() { body_ += "</g>\n"; }

std::string SvgWriter::document(int width, int height, std::string_view title, std::string_view head) const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<title>{2}</title>\n{3}{4}</svg>\n",
      width, height, escape_markup(title), head, body_);
}

std::string svg_head() { return k_head; }

void draw_area(SvgWriter& svg, const Frame& frame, const CpuHolder& holder) {
  if (holder.kind != CpuHolder::Kind::worker) return svg.rectangle(frame, look_of(holder.kind).css);
  const auto number = static_cast<std::size_t>(holder.local_rank);
  svg.rectangle(frame, look_of(holder.kind).css, k_colours[number % k_colours.size()]);
  const std::size_t hatch = number / k_colours.size() % 4;
  if (hatch > 0) svg.rectangle(frame, "hatch", fmt::format("url(#hatch{})", hatch));
}

void draw_square(SvgWriter& svg, int x, int y, const CpuHolder& holder, bool numbers) {
  draw_area(svg, {x, y, k_square, k_square}, holder);
  const std::string mark = mark_of(holder, numbers);
  const bool dark = holder.kind == CpuHolder::Kind::several;
  svg.text(x + k_square / 2, y + 12, dark ? "light" : mark.size() > 2 ? "tiny" : "symbol", mark);
}

std::string colour_of(int local_rank) {
  return k_colours[static_cast<std::size_t>(local_rank) % k_colours.size()];
}

}  // namespace ddprun::render
