#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/report/plot/plot_axis.h"
#include "engine/report/text/style.h"

namespace trainer {

// Note [Pictures of curves]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// What is drawn is made once, from what was recorded, and shown as letters on a terminal or as SVG: panels one below
// the other over one axis, each with its curves. Who a curve belongs to, a run or a point of a sweep, is a colour and a
// letter in all of them; what it shows is a form. Where there is one owner, colours tell what is shown.

struct PlotPoint {
  double x = 0, y = 0;  ///< y NaN: a gap
};

enum class CurveForm : std::uint8_t {
  solid,
  dashed,
  dotted,
  marks,   ///< points, on a terminal not connected
  crosses  ///< points of what failed
};

struct PlotCurve {
  std::string figure{};  ///< what it shows: "training", "peak reserved"; empty: what the panel's title says
  std::string letter{};  ///< beside its end on a terminal, or as its marks: one column
  std::size_t colour = 0;
  CurveForm form = CurveForm::solid;
  std::vector<PlotPoint> points{};  ///< by x
};

/// A line across the panel.
struct PlotLevel {
  std::string label{}, letter{};
  double value = 0;
};

struct CurvePanel {
  std::string title{};
  HeightAxis axis{};
  std::vector<PlotCurve> curves{};
  std::vector<PlotLevel> levels{};
  std::string remark{};  ///< behind the legend; may be empty
  std::size_t rows = 9;  ///< lines of letters
};

/// Where something begins, over all panels.
struct PlotMark {
  double x = 0;
  std::string label{};
};

struct CurvePicture {
  std::string title{};
  std::string x_title{};
  double x_begin = 0, x_end = 1;
  double x_unit = 1;  ///< of what x_title names: 60 of minutes over seconds
  std::vector<AxisTick> x_ticks{};
  struct Owner {
    std::string letter{}, label{};
    std::size_t colour = 0;
  };
  std::vector<Owner> owners{};  ///< the legend; empty: there is one
  std::vector<CurvePanel> panels{};
  std::vector<PlotMark> marks{};

  /// From 0, the axis' beginning, to 1, its end, where what lies outside is; nothing for what is no number.
  std::optional<double> share_of(double x) const { return share_within((x - x_begin) / (x_end - x_begin)); }
};

/// At most four points for each of `buckets` equal parts from `begin` to `end`: its first, lowest, highest and last,
/// and a gap where there is one. All of them where there are few.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, double begin, double end, std::size_t buckets);

/// Braille letters, with axes and legends; no line is wider than the style's width.
std::string picture_text(const CurvePicture& picture, const Style& style);

/// An SVG file's text, for light and dark surroundings.
std::string picture_svg(const CurvePicture& picture);

}  // namespace trainer
