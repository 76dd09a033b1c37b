#include "engine/report/plot/curve_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace trainer {

std::optional<std::pair<double, double>> range_of_curves(const CurvePanel& panel, bool is_above_zero) {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const PlotCurve& curve : panel.curves) {
    for (const PlotPoint& point : curve.points) {
      if (!std::isfinite(point.y) || (is_above_zero && !(point.y > 0))) continue;
      lowest = std::min(lowest, point.y);
      highest = std::max(highest, point.y);
    }
  }
  if (highest < lowest) return std::nullopt;
  return std::pair(lowest, highest);
}

double most_shown_loss(const CurvePanel& panel) {
  constexpr double room_above_start = 2;
  std::vector<double> starts;
  double lowest = std::numeric_limits<double>::infinity();
  const bool has_lines = std::any_of(panel.curves.begin(), panel.curves.end(),
                                     [](const PlotCurve& curve) { return curve.form != CurveForm::marks; });
  for (const PlotCurve& curve : panel.curves) {
    bool has_start = has_lines && curve.form == CurveForm::marks;  // evaluations begin later
    for (const PlotPoint& point : curve.points) {
      if (!std::isfinite(point.y)) continue;
      if (!std::exchange(has_start, true)) starts.push_back(point.y);
      lowest = std::min(lowest, point.y);
    }
  }
  if (starts.empty()) return std::numeric_limits<double>::infinity();
  std::sort(starts.begin(), starts.end());
  const double usual = starts[(starts.size() - 1) / 2];
  return usual > std::max(lowest, 0.0) ? room_above_start * usual : std::numeric_limits<double>::infinity();
}

void tell_what_is_cut(CurvePanel& panel, double highest) {
  if (highest > panel.axis.end * (1 + 1e-9)) panel.remark = fmt::format("up to {:.4g}, beyond the upper edge", highest);
}

}  // namespace trainer
