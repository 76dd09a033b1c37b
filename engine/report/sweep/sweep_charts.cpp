#include "engine/report/sweep/sweep_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "engine/bytes.h"
#include "engine/report/plot/curve_range.h"
#include "engine/report/plot/plot_picture.h"
#include "engine/report/sweep/sweep_findings.h"
#include "engine/report/sweep/sweep_plot.h"

namespace trainer {
namespace {

/// So that the table above is not far.
constexpr std::size_t sweep_chart_rows = 6;

std::string letter_of(std::size_t number, char first) {
  return std::string(1, static_cast<char>(first + static_cast<char>(number)));
}

/// "lr=0.01, amp=off": its values from the key `first_key` on.
std::string values_label(const std::vector<SweptKey>& keys, const std::vector<std::string>& values,
                         std::size_t first_key) {
  std::string label;
  for (std::size_t i = 0; i < values.size(); ++i)
    label += fmt::format("{}{}={}", i > 0 ? ", " : "", keys[first_key + i].label, values[i]);
  return label;
}

std::string loss_chart(const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows, const Style& style) {
  CurvePicture picture{.title = "Losses", .x_title = "step"};
  CurvePanel panel{.title = "loss", .rows = sweep_chart_rows};
  std::vector<PlotCurve> evaluated;
  std::int64_t num_curves = 0, last_step = 1;
  for (const SweepRow& row : rows) {
    if (row.train_losses.empty() && row.evaluations.empty()) continue;
    const auto number = static_cast<std::size_t>(num_curves++);
    if (number >= most_plotted_curves) continue;
    const std::string status = row.status == PointStatus::done ? "" : fmt::format(" ({})", name_of(row.status));
    picture.owners.push_back({letter_of(number, 'A'), values_label(keys, row.values, 0) + status, number});
    PlotCurve trained{.figure = "training", .letter = letter_of(number, 'A'), .colour = number};
    for (const CurvePoint& point : row.train_losses)
      trained.points.push_back({static_cast<double>(point.step), point.value});
    PlotCurve found{
        .figure = "evaluation", .letter = letter_of(number, 'a'), .colour = number, .form = CurveForm::marks};
    for (const EvaluatedPoint& point : row.evaluations)
      found.points.push_back({static_cast<double>(point.step), point.loss});
    for (const PlotCurve* curve : {&trained, &found})
      if (!curve->points.empty()) last_step = std::max(last_step, static_cast<std::int64_t>(curve->points.back().x));
    if (!trained.points.empty()) panel.curves.push_back(std::move(trained));
    if (!found.points.empty()) evaluated.push_back(std::move(found));
  }
  panel.curves.insert(panel.curves.end(), evaluated.begin(), evaluated.end());
  const auto range = range_of_curves(panel);
  if (!range) return "";
  const double highest = std::max(range->first, std::min(range->second, most_shown_loss(panel)));
  panel.axis = range_axis(range->first, highest);
  if (panel.axis.is_logarithmic) panel.title += " (logarithmic)";
  tell_what_is_cut(panel, range->second);
  picture.panels.push_back(std::move(panel));
  picture.x_end = static_cast<double>(last_step);
  const HeightAxis steps = number_axis(picture.x_end);
  for (const AxisTick& tick : steps.ticks)
    if (tick.label.find('.') == std::string::npos)  // there is no half a step
      picture.x_ticks.push_back({tick.at * steps.end / picture.x_end, tick.label});
  if (const std::int64_t num_cut = num_curves - static_cast<std::int64_t>(picture.owners.size()); num_cut > 0)
    picture.owners.push_back({"…", fmt::format("and {} in sweep.jsonl", format_number_of(num_cut, "curve")), 0});
  return '\n' + picture_text(picture, style);
}

/// What a point that lacked memory needed, or the capacity where that is not known.
std::optional<double> needed_memory(const SweepRow& row) {
  if (row.status == PointStatus::does_not_fit && row.peak_reserved) return static_cast<double>(*row.peak_reserved);
  if (!row.capacity) return std::nullopt;
  return static_cast<double>(*row.capacity);
}

/// Where memory depends on what is swept: what was reserved differs, or was not there.
bool memory_differs(const std::vector<SweepRow>& rows) {
  std::set<std::int64_t> reserved;
  bool lacked = false;
  for (const SweepRow& row : rows) {
    if (row.peak_reserved) reserved.insert(*row.peak_reserved);
    lacked = lacked || lacks_memory(row.status);
  }
  return reserved.size() > 1 || lacked;
}

std::string memory_chart(const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows, const Style& style) {
  std::vector<std::string> values;
  for (const SweepRow& row : rows)
    if (values.empty() || values.back() != row.values.front()) values.push_back(row.values.front());
  const ValueAxis axis = value_axis(values);
  if (!axis.is_continuous || values.size() < 2 || !memory_differs(rows)) return "";
  std::vector<SweepSeries> all = series_of(rows);
  const std::size_t num_cut = all.size() - std::min(all.size(), most_plotted_series);
  all.resize(all.size() - num_cut);

  CurvePicture picture{.title = "Peak memory", .x_title = keys.front().label};
  if (axis.is_logarithmic) picture.title += fmt::format(" over {} (logarithmic)", keys.front().key);
  for (std::size_t i = 0; i < values.size(); ++i) picture.x_ticks.push_back({axis.positions[i], values[i]});
  CurvePanel panel{.title = "memory", .rows = sweep_chart_rows};
  std::vector<PlotCurve> allocated;
  PlotCurve lacking{.figure = "out of memory", .form = CurveForm::crosses};
  std::set<std::int64_t> capacities;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string letter = letter_of(i, 'A');
    if (all.size() > 1) picture.owners.push_back({letter, values_label(keys, all[i].others, 1), i});
    PlotCurve reserved{.figure = "reserved", .letter = all.size() > 1 ? letter : "r", .colour = i};
    PlotCurve held{.figure = "allocated",
                   .letter = all.size() > 1 ? letter : "a",
                   .colour = all.size() > 1 ? i : 1,
                   .form = CurveForm::dashed};
    for (const SweepRow* row : all[i].rows) {
      const auto place = std::find(values.begin(), values.end(), row->values.front()) - values.begin();
      const double x = axis.positions[static_cast<std::size_t>(place)];
      if (row->capacity) capacities.insert(*row->capacity);
      if (lacks_memory(row->status)) {
        if (const std::optional<double> needed = needed_memory(*row)) lacking.points.push_back({x, *needed});
        if (row->status == PointStatus::does_not_fit) lacking.figure = "does not fit";
        continue;
      }
      if (row->peak_reserved) reserved.points.push_back({x, static_cast<double>(*row->peak_reserved)});
      if (row->peak_allocated) held.points.push_back({x, static_cast<double>(*row->peak_allocated)});
    }
    if (!reserved.points.empty()) panel.curves.push_back(std::move(reserved));
    if (!held.points.empty()) allocated.push_back(std::move(held));
  }
  panel.curves.insert(panel.curves.end(), allocated.begin(), allocated.end());
  if (!lacking.points.empty()) panel.curves.push_back(std::move(lacking));
  const auto range = range_of_curves(panel);
  if (!range) return "";
  double highest = range->second;
  constexpr double far_above = 4;
  for (const std::int64_t capacity : capacities) {
    const auto height = static_cast<double>(capacity);
    const std::string label = fmt::format("capacity {}", format_bytes(capacity));
    if (height <= far_above * range->second) {
      panel.levels.push_back({label, "c", height});
      highest = std::max(highest, height);
    } else if (capacities.size() == 1) {
      panel.remark = label + ", far above";
    }
  }
  panel.axis = bytes_axis(highest);
  picture.panels.push_back(std::move(panel));
  if (num_cut > 0)
    picture.owners.push_back(
        {"…", fmt::format("and {} in sweep.csv", format_number_of(static_cast<std::int64_t>(num_cut), "combination")),
         0});
  return '\n' + picture_text(picture, style);
}

}  // namespace

std::string sweep_charts(const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows, const Style& style) {
  if (rows.empty()) return "";
  return loss_chart(keys, rows, style) + memory_chart(keys, rows, style);
}

}  // namespace trainer
