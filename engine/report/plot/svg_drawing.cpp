#include "engine/report/plot/svg_drawing.h"

#include <fmt/format.h>

#include "engine/config/text/utf8_text.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char letter : printable(text)) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

std::string svg_polygon(const std::vector<SvgPoint>& points, std::string_view classes) {
  std::string start = "polygon points=\"";
  for (const SvgPoint& point : points) start += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  start.back() = '"';
  return start + fmt::format(" class=\"{}\"", classes);
}

}  // namespace

// Colours are written out and not named by variables, which not every renderer knows.
const char* const plot_style_sheet = R"(text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 } .name { font-weight: 600 }
.end { text-anchor: end } .middle { text-anchor: middle }
.soft { fill: #57606a }
.paper { fill: #ffffff }
.axis { stroke: #8c959f } .grid { stroke: #eaeef2 } .mark { stroke: #8c959f; stroke-dasharray: 2 4 }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 } .thin { fill: none; stroke-width: 1.5; stroke-dasharray: 2 3 }
.capacity { fill: none; stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 8 4 }
.cross { fill: none; stroke: #cf222e; stroke-width: 2.5 } .bad { fill: #cf222e }
.hollow { fill: #ffffff; stroke-width: 1.5 } .pale { fill-opacity: 0.35 }
.k0 { stroke: #0969da } .f0 { fill: #0969da } .k1 { stroke: #bc4c00 } .f1 { fill: #bc4c00 }
.k2 { stroke: #1a7f37 } .f2 { fill: #1a7f37 } .k3 { stroke: #8250df } .f3 { fill: #8250df }
.k4 { stroke: #9a6700 } .f4 { fill: #9a6700 } .k5 { stroke: #0e7c86 } .f5 { fill: #0e7c86 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9198a1 } .paper { fill: #0d1117 } .hollow { fill: #0d1117 }
.axis, .mark { stroke: #656c76 } .grid { stroke: #262c36 } .capacity { stroke: #9198a1 }
.cross { stroke: #ff7b72 } .bad { fill: #ff7b72 }
.k0 { stroke: #58a6ff } .f0 { fill: #58a6ff } .k1 { stroke: #ffa657 } .f1 { fill: #ffa657 }
.k2 { stroke: #56d364 } .f2 { fill: #56d364 } .k3 { stroke: #bc8cff } .f3 { fill: #bc8cff }
.k4 { stroke: #e3b341 } .f4 { fill: #e3b341 } .k5 { stroke: #39c5cf } .f5 { fill: #39c5cf }
}
)";

void SvgDrawing::element(std::string_view start, std::string_view tip) {
  if (tip.empty()) {
    body_ += fmt::format("<{}/>\n", start);
    return;
  }
  const std::string_view name = start.substr(0, start.find(' '));
  body_ += fmt::format("<{}><title>{}</title></{}>\n", start, xml_escaped(tip), name);
}

void SvgDrawing::line(SvgPoint from, SvgPoint to, std::string_view classes) {
  element(fmt::format(R"(line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}")", from.x, from.y, to.x, to.y,
                      classes),
          "");
}

void SvgDrawing::polyline(const std::vector<SvgPoint>& points, std::string_view classes) {
  if (points.size() < 2) return;
  std::string start = "polyline points=\"";
  for (const SvgPoint& point : points) start += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  start.back() = '"';
  element(start + fmt::format(" class=\"{}\"", classes), "");
}

void SvgDrawing::rectangle(SvgPoint corner, double width, double height, std::string_view classes,
                           std::string_view tip) {
  element(fmt::format(R"(rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}")", corner.x, corner.y,
                      width, height, classes),
          tip);
}

void SvgDrawing::marker(Marker shape, SvgPoint center, std::string_view classes, std::string_view tip) {
  const auto [x, y] = center;
  switch (shape) {
    case Marker::circle:
      element(fmt::format(R"(circle cx="{:.1f}" cy="{:.1f}" r="4" class="{}")", x, y, classes), tip);
      break;
    case Marker::square:
      element(svg_polygon({{x - 4, y - 4}, {x + 4, y - 4}, {x + 4, y + 4}, {x - 4, y + 4}}, classes), tip);
      break;
    case Marker::diamond:
      element(svg_polygon({{x, y - 5}, {x + 5, y}, {x, y + 5}, {x - 5, y}}, classes), tip);
      break;
    case Marker::triangle:
      element(svg_polygon({{x, y - 5}, {x + 5, y + 4}, {x - 5, y + 4}}, classes), tip);
      break;
    case Marker::cross:
      element(fmt::format(R"(path d="M{:.1f} {:.1f}l12 12m0 -12l-12 12" class="{}")", x - 6, y - 6, classes), tip);
      break;
  }
}

void SvgDrawing::text(SvgPoint at, std::string_view text, std::string_view classes) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", at.x, at.y, classes, xml_escaped(text));
}

void SvgDrawing::upright_text(SvgPoint at, std::string_view text, std::string_view classes) {
  body_ += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" class=\"{}\">{}</text>\n", at.x, at.y,
                       classes, xml_escaped(text));
}

std::string SvgDrawing::finish(double height, std::string_view title, std::string_view style_sheet) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>\n",
             width_, height, xml_escaped(title)) +
         std::string(style_sheet) + "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n" + body_ +
         "</svg>\n";
}

double text_width(std::string_view text) { return 7.3 * static_cast<double>(display_width(printable(text))); }

}  // namespace trainer
