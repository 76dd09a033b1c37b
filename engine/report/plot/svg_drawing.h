#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

struct SvgPoint {
  double x = 0, y = 0;
};

enum class Marker : std::uint8_t { circle, square, diamond, triangle, cross };

/// The style sheet of plots, for light and dark surroundings.
extern const char* const plot_style_sheet;

/// Writes SVG, in pixels, y downwards. Texts are escaped. Classes refer to the style sheet given at the end.
class SvgDrawing {
 public:
  explicit SvgDrawing(double width) : width_(width) {}

  void line(SvgPoint from, SvgPoint to, std::string_view classes);
  /// Nothing for less than two points.
  void polyline(const std::vector<SvgPoint>& points, std::string_view classes);
  /// `tip` is shown where the pointer rests on it; empty: none.
  void rectangle(SvgPoint corner, double width, double height, std::string_view classes, std::string_view tip = "");
  void marker(Marker shape, SvgPoint center, std::string_view classes, std::string_view tip = "");
  void text(SvgPoint at, std::string_view text, std::string_view classes);
  /// Read from below upwards.
  void upright_text(SvgPoint at, std::string_view text, std::string_view classes);

  /// The whole file; `title` is what a reader of screens says.
  std::string finish(double height, std::string_view title, std::string_view style_sheet) const;

 private:
  void element(std::string_view start, std::string_view tip);

  double width_;
  std::string body_;
};

/// Pixels that the text takes at 12 pixels height, about.
double text_width(std::string_view text);

}  // namespace trainer
