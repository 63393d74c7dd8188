#include "render/svg_writer.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace ddprun::render {

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

}  // namespace ddprun::render
