#include "engine/report/run/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace trainer {
namespace {

constexpr std::size_t most_stretches = 1024;
constexpr std::size_t least_points = 8;
constexpr std::size_t curve_rows = 5, curve_columns = 60;
// A letter of Unicode's braille has two by four dots.
constexpr std::size_t dots_across = 2, dots_down = 4;

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// Cells of dots, from the top left.
class DotCanvas {
 public:
  explicit DotCanvas(std::size_t columns) : columns_(columns), cells_(columns * curve_rows) {}

  void set(std::size_t x, std::size_t y) {
    constexpr std::array<std::array<unsigned, dots_down>, dots_across> bits = {
        {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    cells_[y / dots_down * columns_ + x / dots_across] |= bits[x % dots_across][y % dots_down];
  }
  std::string row(std::size_t index) const {
    std::string text;
    for (std::size_t column = 0; column < columns_; ++column) {
      const unsigned dots = cells_[index * columns_ + column];
      text += dots == 0 ? " " : braille(dots);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  std::size_t columns_;
  std::vector<unsigned> cells_;
};

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
  constexpr std::size_t number_columns = 9, indent = 2;
  const std::size_t room = static_cast<std::size_t>(std::max(style.width, 40)) - number_columns - indent - 3;
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
  double lowest = stretches_.front().mean(), highest = lowest;
  for (const Stretch& point : points) {
    if (point.count == 0) continue;
    lowest = std::min(lowest, point.mean());
    highest = std::max(highest, point.mean());
  }
  const double range = highest > lowest ? highest - lowest : 1;
  DotCanvas canvas(columns);
  constexpr std::size_t lowest_dot = curve_rows * dots_down - 1;
  std::size_t before = 0;
  for (std::size_t x = 0; x < points.size(); ++x) {
    if (points[x].count == 0) continue;
    const double height = (highest - points[x].mean()) / range;
    const auto y = static_cast<std::size_t>(std::lround(height * static_cast<double>(lowest_dot)));
    // Steep parts are drawn as lines, not as dots that nobody connects.
    const std::size_t from = x == 0 ? y : std::min(before, y), to = x == 0 ? y : std::max(before, y);
    for (std::size_t dot = from; dot <= to; ++dot) canvas.set(x, dot);
    before = y;
  }
  std::string text;
  for (std::size_t row = 0; row < curve_rows; ++row) {
    const std::string label = row == 0                ? fmt::format("{:.4g}", highest)
                              : row == curve_rows - 1 ? fmt::format("{:.4g}", lowest)
                                                      : "";
    text += fmt::format("{:>{}} │{}\n", label, indent + number_columns, paint(style, Ink::cyan, canvas.row(row)));
  }
  const std::string steps = fmt::format("steps {} to {}", first_step, last_step);
  const std::string title = "training loss, " + steps;
  return text + std::string(indent + number_columns + 1, ' ') + "└ " + (title.size() <= room ? title : steps) + '\n';
}

}  // namespace trainer
