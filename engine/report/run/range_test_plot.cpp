#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/report/plot/plot_axis.h"
#include "engine/report/plot/svg_drawing.h"
#include "engine/report/run/range_test_report.h"

namespace trainer {
namespace {

constexpr double rate_plot_width = 860, rate_left = 104, rate_right = 836, rate_top = 92, rate_height = 330;

/// From the left end of the axis, 0, to its right end, 1, which are rates.
class RateAxis {
 public:
  RateAxis(double lowest, double highest) : begin_(std::log10(lowest)), end_(std::log10(highest)) {
    if (end_ - begin_ < 1e-9) end_ = begin_ + 1;
  }
  double x(double rate) const {
    return rate_left + (rate_right - rate_left) * (std::log10(rate) - begin_) / (end_ - begin_);
  }
  /// Powers of ten.
  std::vector<int> ticks() const {
    std::vector<int> powers;
    for (int power = static_cast<int>(std::ceil(begin_ - 1e-9)); power <= end_ + 1e-9; ++power) powers.push_back(power);
    return powers;
  }

 private:
  double begin_, end_;
};

}  // namespace

std::string range_test_plot(const RangeTestFindings& findings) {
  const RangeTest& test = findings.run.test;
  const std::string title = fmt::format("Learning rates of {}", findings.experiment_name);
  SvgDrawing drawing(rate_plot_width);
  drawing.text({rate_left, 30}, title, "title");
  const std::size_t count = test.smoothed().size();
  if (count == 0) return drawing.finish(60, title, plot_style_sheet);
  // Single losses beyond the smoothed ones are cut off.
  const auto [lowest, highest] = std::minmax_element(test.smoothed().begin(), test.smoothed().end());
  const HeightAxis heights = range_axis(*lowest, *highest);
  const RateAxis rates(test.rates().front(), test.rates().back());
  const double bottom = rate_top + rate_height;
  const auto y = [&](double loss) { return bottom - rate_height * std::clamp(heights.at(loss), 0.0, 1.0); };
  for (const AxisTick& tick : heights.ticks) {
    const double at = bottom - rate_height * tick.at;
    drawing.line({rate_left, at}, {rate_right, at}, tick.at == 0 ? "axis" : "grid");
    drawing.text({rate_left - 8, at + 4}, tick.label, "end soft");
  }
  for (const int power : rates.ticks()) {
    const double at = rates.x(std::pow(10.0, power));
    drawing.line({at, bottom}, {at, bottom + 5}, "axis");
    drawing.text({at, bottom + 20}, fmt::format("1e{}", power), "middle soft");
  }
  drawing.text({(rate_left + rate_right) / 2, bottom + 42}, "learning rate (logarithmic)", "middle");
  drawing.upright_text({16, rate_top + rate_height / 2}, "loss", "middle");

  const auto curve = [&](std::span<const double> losses) {
    std::vector<SvgPoint> points;
    for (std::size_t i = 0; i < count; ++i) points.push_back({rates.x(test.rates()[i]), y(losses[i])});
    return points;
  };
  drawing.polyline(curve(test.losses()), "thin k0");
  drawing.polyline(curve(test.smoothed()), "line k0");
  double x = rate_left;
  const auto entry = [&](const std::string& text, const auto& draw_sample) {
    draw_sample(x);
    drawing.text({x + 30, 60}, text, "");
    x += 30 + text_width(text) + 18;
  };
  entry("smoothed loss", [&](double at) { drawing.line({at, 56}, {at + 24, 56}, "line k0"); });
  entry("loss of a step", [&](double at) { drawing.line({at, 56}, {at + 24, 56}, "thin k0"); });
  const SuggestedRates suggested = test.suggestions();
  constexpr std::array<Marker, 3> markers = {Marker::circle, Marker::square, Marker::diamond};
  const std::array<std::pair<std::string_view, std::optional<SuggestedRate>>, 3> named = {
      {{"valley", suggested.valley}, {"steepest", suggested.steepest}, {"minimum", suggested.minimum}}};
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& [name, suggestion] = named[i];
    if (!suggestion) continue;
    const std::string text = fmt::format("{} {}", name, suggested_rate_text(suggestion->rate));
    const std::string classes = fmt::format("f{}", i + 1);
    entry(text, [&](double at) { drawing.marker(markers[i], {at + 12, 56}, classes); });
    drawing.marker(markers[i], {rates.x(test.rates()[suggestion->place]), y(test.smoothed()[suggestion->place])},
                   classes, text);
  }
  return drawing.finish(bottom + 60, title, plot_style_sheet);
}

}  // namespace trainer
