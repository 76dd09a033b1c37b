#include "engine/report/run/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/report/text/dot_chart.h"

namespace trainer {
namespace {

constexpr std::size_t most_stretches = 1024;
constexpr std::size_t least_points = 8;
constexpr std::size_t curve_rows = 5, curve_columns = 60;

}  // namespace

void LossCurve::add(std::int64_t step, double loss) {
  if (!std::isfinite(loss)) return;
  if (stretches_.empty() || step - stretches_.back().first_step >= steps_per_stretch_) {
    if (stretches_.size() == most_stretches) {
      for (std::size_t i = 0; i < most_stretches / 2; ++i) {
        const Stretch &first = stretches_[2 * i], &second = stretches_[2 * i + 1];
        stretches_[i] = {first.first_step, second.last_step, first.sum + second.sum, first.count + second.count};
      }
      stretches_.resize(most_stretches / 2);
      steps_per_stretch_ *= 2;
    }
    stretches_.push_back({step, step, 0, 0});
  }
  Stretch& last = stretches_.back();
  last.last_step = step;
  last.sum += loss;
  ++last.count;
}

std::vector<CurvePoint> LossCurve::points(std::size_t most) const {
  const std::size_t merged = (stretches_.size() + most - 1) / most;
  std::vector<CurvePoint> points;
  for (std::size_t begin = 0; begin < stretches_.size(); begin += merged) {
    Stretch whole;
    for (std::size_t i = begin; i < std::min(begin + merged, stretches_.size()); ++i) {
      whole.last_step = stretches_[i].last_step;
      whole.sum += stretches_[i].sum;
      whole.count += stretches_[i].count;
    }
    points.push_back({whole.last_step, whole.mean()});
  }
  return points;
}

std::string LossCurve::text(const Style& style) const {
  if (stretches_.size() < least_points) return "";
  const std::int64_t first_step = stretches_.front().first_step, last_step = stretches_.back().last_step;
  const std::size_t room = static_cast<std::size_t>(std::max(style.width, 40)) - dot_chart_margin - 1;
  const std::size_t columns = std::min({room, curve_columns, (stretches_.size() + 1) / dots_across});
  // The mean of what falls into a column of dots.
  std::vector<Stretch> points(columns * dots_across);
  for (const Stretch& stretch : stretches_) {
    const double share = static_cast<double>(stretch.first_step - first_step) /
                         static_cast<double>(std::max<std::int64_t>(last_step - first_step, 1));
    Stretch& point = points[static_cast<std::size_t>(std::lround(share * static_cast<double>(points.size() - 1)))];
    point.sum += stretch.sum;
    point.count += stretch.count;
  }
  std::vector<double> heights;
  heights.reserve(points.size());
  for (const Stretch& point : points)
    heights.push_back(point.count > 0 ? point.mean() : std::numeric_limits<double>::quiet_NaN());
  const std::string steps = fmt::format("steps {} to {}", first_step, last_step);
  const std::string title = "training loss, " + steps;
  return dot_chart(heights, curve_rows, style) + std::string(dot_chart_margin - 1, ' ') + "└ " +
         (title.size() <= room ? title : steps) + '\n';
}

}  // namespace trainer
