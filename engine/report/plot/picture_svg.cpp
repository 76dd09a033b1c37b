#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/report/plot/plot_picture.h"
#include "engine/report/plot/svg_drawing.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

constexpr double picture_width = 860, picture_left = 104, picture_right = 836, panel_height = 190;
constexpr double legend_line = 20, above_panel = 18, below_panel = 30;
constexpr std::size_t picture_colours = 6;
constexpr std::array<Marker, 4> owner_markers = {Marker::circle, Marker::square, Marker::diamond, Marker::triangle};

class PictureSvg {
 public:
  explicit PictureSvg(const CurvePicture& picture) : picture_(picture), drawing_(picture_width) {}

  std::string draw() {
    drawing_.text({picture_left, 30}, picture_.title, "title");
    double x = picture_left, y = 54;
    for (const CurvePicture::Owner& owner : picture_.owners)
      draw_entry(x, y, cut_to_width(owner.label, 90), [&](double at) {
        drawing_.line({at, y}, {at + 24, y}, fmt::format("line k{}", owner.colour % picture_colours));
        drawing_.marker(marker_of(owner.colour), {at + 12, y}, fill_of(owner.colour));
      });
    double bottom = picture_.owners.empty() ? 40 : y + 8;
    for (const CurvePanel& panel : picture_.panels) {
      bottom = draw_panel(panel, bottom + above_panel, &panel == &picture_.panels.front());
      if (&panel != &picture_.panels.back()) bottom += below_panel;
    }
    drawing_.text({(picture_left + picture_right) / 2, bottom + 42}, picture_.x_title, "middle");
    return drawing_.finish(bottom + 60, picture_.title, plot_style_sheet);
  }

 private:
  static Marker marker_of(std::size_t colour) { return owner_markers[colour % owner_markers.size()]; }
  static std::string fill_of(std::size_t colour) { return fmt::format("f{}", colour % picture_colours); }

  static std::string line_of(const PlotCurve& curve) {
    const char* const form = curve.form == CurveForm::dashed   ? "line dashed"
                             : curve.form == CurveForm::dotted ? "thin"
                                                               : "line";
    return fmt::format("{} k{}", form, curve.colour % picture_colours);
  }

  /// Nothing where a number has no place on the axis.
  std::optional<double> x_of(double x) const {
    const std::optional<double> share = picture_.share_of(x);
    return share ? std::optional(picture_left + (picture_right - picture_left) * *share) : std::nullopt;
  }

  /// Behind the one that ended at (x, y), or in the next line.
  void draw_entry(double& x, double& y, const std::string& text, const std::function<void(double)>& draw_sample) {
    const double needed = 30 + text_width(text) + 18;
    if (x > picture_left && x + needed > picture_right) {
      x = picture_left;
      y += legend_line;
    }
    draw_sample(x);
    drawing_.text({x + 30, y + 4}, text, "");
    x += needed;
  }

  /// Returns where the next line ends.
  double draw_legend(const CurvePanel& panel, double y) {
    drawing_.text({picture_left, y + 4}, panel.title, "name");
    double x = picture_left + text_width(panel.title) + 24;
    std::set<std::string> seen;
    for (const PlotCurve& curve : panel.curves) {
      if (curve.figure.empty() || !seen.insert(curve.figure).second) continue;
      draw_entry(x, y, curve.figure, [&](double at) {
        if (curve.form != CurveForm::marks) drawing_.line({at, y}, {at + 24, y}, line_of(curve));
        if (curve.form == CurveForm::marks) {
          drawing_.line({at, y}, {at + 24, y}, "thin " + stroke_of(curve));
          drawing_.marker(marker_of(curve.colour), {at + 12, y}, fill_of(curve.colour));
        }
      });
    }
    for (const PlotLevel& level : panel.levels)
      draw_entry(x, y, level.label, [&](double at) { drawing_.line({at, y}, {at + 24, y}, "capacity"); });
    if (panel.remark.empty()) return y;
    if (x > picture_left && x + text_width(panel.remark) > picture_right) {
      x = picture_left;
      y += legend_line;
    }
    drawing_.text({x, y + 4}, panel.remark, "soft");
    return y;
  }

  static std::string stroke_of(const PlotCurve& curve) { return fmt::format("k{}", curve.colour % picture_colours); }

  /// Returns its lower edge.
  double draw_panel(const CurvePanel& panel, double y, bool is_first) {
    double top = draw_legend(panel, y) + 14;
    if (is_first && !picture_.marks.empty()) top += 14;
    const double bottom = top + panel_height;
    const auto y_of = [&](double value) {
      const std::optional<double> share = panel.axis.share_of(value);
      return share ? std::optional(bottom - panel_height * *share) : std::nullopt;
    };
    for (const AxisTick& tick : panel.axis.ticks) {
      const double at = bottom - panel_height * tick.at;
      drawing_.line({picture_left, at}, {picture_right, at}, tick.at == 0 ? "axis" : "grid");
      drawing_.text({picture_left - 8, at + 4}, tick.label, "end soft");
    }
    double free_from = 0;
    for (const AxisTick& tick : picture_.x_ticks) {
      const double at = picture_left + (picture_right - picture_left) * tick.at;
      drawing_.line({at, bottom}, {at, bottom + 5}, "axis");
      if (at - text_width(tick.label) / 2 < free_from) continue;
      free_from = at + text_width(tick.label) / 2 + 8;
      drawing_.text({at, bottom + 20}, tick.label, "middle soft");
    }
    draw_marks(top, bottom, is_first);
    for (const PlotLevel& level : panel.levels)
      if (const auto at = y_of(level.value)) drawing_.line({picture_left, *at}, {picture_right, *at}, "capacity");
    for (const PlotCurve& curve : panel.curves)
      draw_curve(panel, curve, [&](const PlotPoint& point) -> std::optional<SvgPoint> {
        const auto x = x_of(point.x), height = y_of(point.y);
        if (!std::isfinite(point.y) || !x || !height) return std::nullopt;
        return SvgPoint{*x, *height};
      });
    return bottom;
  }

  void draw_marks(double top, double bottom, bool is_named) {
    double free_from = 0;
    for (const PlotMark& mark : picture_.marks) {
      const auto place = x_of(mark.x);
      if (!place) continue;
      const double at = *place;
      if (at > picture_left) drawing_.line({at, top}, {at, bottom}, "mark");
      const std::string label = cut_to_width(mark.label, 24);
      if (!is_named || at < free_from || at + text_width(label) > picture_right) continue;
      drawing_.text({at, top - 6}, label, "soft");
      free_from = at + text_width(label) + 8;
    }
  }

  /// `place_of` tells nothing for points that are not drawn.
  void draw_curve(const CurvePanel& panel, const PlotCurve& curve,
                  const std::function<std::optional<SvgPoint>(const PlotPoint&)>& place_of) {
    constexpr std::size_t most_marked = 60;
    if (curve.form == CurveForm::crosses) {
      for (const PlotPoint& point : curve.points)
        if (const auto place = place_of(point))
          drawing_.marker(Marker::cross, *place, "cross", tip_of(panel, curve, point));
      return;
    }
    std::vector<SvgPoint> piece;
    const auto end_piece = [&] {
      drawing_.polyline(piece, curve.form == CurveForm::marks ? "thin " + stroke_of(curve) : line_of(curve));
      piece.clear();
    };
    const bool has_few =
        curve.points.size() <= most_marked && curve.form != CurveForm::dotted && curve.form != CurveForm::dashed;
    for (const PlotPoint& point : curve.points) {
      if (const auto place = place_of(point))
        piece.push_back(*place);
      else
        end_piece();
    }
    end_piece();
    if (!has_few && curve.form != CurveForm::marks) return;
    for (const PlotPoint& point : curve.points)
      if (const auto place = place_of(point))
        drawing_.marker(marker_of(curve.colour), *place, fill_of(curve.colour), tip_of(panel, curve, point));
  }

  std::string tip_of(const CurvePanel& panel, const PlotCurve& curve, const PlotPoint& point) const {
    std::string tip;
    for (const CurvePicture::Owner& owner : picture_.owners)
      if (owner.colour == curve.colour) tip = owner.label + ": ";
    return tip + fmt::format("{}{} {:.6g} at {} {:.6g}", panel.title, curve.figure.empty() ? "" : ", " + curve.figure,
                             point.y, picture_.x_title, point.x / picture_.x_unit);
  }

  const CurvePicture& picture_;
  SvgDrawing drawing_;
};

}  // namespace

std::string picture_svg(const CurvePicture& picture) { return PictureSvg(picture).draw(); }

}  // namespace trainer
