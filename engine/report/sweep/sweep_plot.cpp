#include "engine/report/sweep/sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>

#include "engine/bytes.h"
#include "engine/report/plot/plot_axis.h"
#include "engine/report/plot/svg_drawing.h"
#include "engine/report/sweep/sweep_findings.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

constexpr double plot_width = 860, left_edge = 104, right_edge = 836;
constexpr double memory_height = 260, speed_height = 170, curves_height = 200, between_panels = 34;
constexpr std::size_t num_colours = 6;
constexpr std::array<Marker, 4> series_markers = {Marker::circle, Marker::square, Marker::diamond, Marker::triangle};

using RowFigure = std::function<std::optional<double>(const SweepRow&)>;

template <class T>
std::optional<double> as_double(const std::optional<T>& number) {
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

std::optional<double> allocated_of(const SweepRow& row) { return as_double(row.peak_allocated); }
std::optional<double> reserved_of(const SweepRow& row) { return as_double(row.peak_reserved); }
std::optional<double> speed_of(const SweepRow& row) { return as_double(row.samples_per_second); }

/// What a panel draws into.
struct PlotPanel {
  double top = 0, height = 0;
  HeightAxis axis;

  double bottom() const { return top + height; }
  /// What is higher than the axis lies at its end.
  double y(double value) const { return bottom() - height * std::clamp(axis.at(value), 0.0, 1.0); }
};

using Curve = std::vector<CurvePoint>;
using CurveOf = std::function<Curve(const SweepRow&)>;

Curve train_losses_of(const SweepRow& row) { return row.train_losses; }
Curve evaluated_losses_of(const SweepRow& row) {
  Curve curve;
  for (const EvaluatedPoint& point : row.evaluations) curve.push_back({point.step, point.loss});
  return curve;
}
Curve accuracies_of(const SweepRow& row) {
  Curve curve;
  for (const EvaluatedPoint& point : row.evaluations)
    if (point.accuracy) curve.push_back({point.step, *point.accuracy});
  return curve;
}

class SweepPlot {
 public:
  SweepPlot(const std::string& title, const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows)
      : title_(title), keys_(keys), rows_(rows), series_(series_of(rows)), drawing_(plot_width) {
    for (const SweepRow& row : rows_)
      if (values_.empty() || values_.back() != row.values.front()) values_.push_back(row.values.front());
    x_ = value_axis(values_);
    num_left_out_ = series_.size() - std::min(series_.size(), most_plotted_series);
    series_.resize(series_.size() - num_left_out_);
    planned_ = std::any_of(rows_.begin(), rows_.end(), [](const SweepRow& row) {
      return row.status == PointStatus::fits || row.status == PointStatus::does_not_fit;
    });
  }

  std::string draw() {
    drawing_.text({left_edge, 30}, title_, "title");
    const double below_legend = draw_legend(52);
    memory_ = {below_legend + 24, memory_height, bytes_axis(highest_memory())};
    speed_ = {memory_.bottom() + between_panels, speed_height, number_axis(highest(speed_of))};
    draw_frame(memory_, "peak memory");
    draw_frame(speed_, planned_ ? "samples/s, predicted" : "samples/s");
    draw_values();
    draw_capacity();
    for (std::size_t i = 0; i < series_.size(); ++i) x_.is_continuous ? draw_lines(i) : draw_bars(i);
    for (std::size_t i = 0; i < series_.size(); ++i) draw_failures(i);
    return drawing_.finish(draw_curves(speed_.bottom() + 56), title_, plot_style_sheet);
  }

 private:
  double x_of(const SweepRow& row) const {
    const auto place = std::find(values_.begin(), values_.end(), row.values.front()) - values_.begin();
    return left_edge + (right_edge - left_edge) * x_.positions[static_cast<std::size_t>(place)];
  }

  double bar_width() const {
    const double slot = (right_edge - left_edge) / static_cast<double>(values_.size());
    return std::min(0.7 * slot / static_cast<double>(series_.size()), 60.0);
  }

  /// The middle of a point of a series: bars of a value stand side by side.
  double x_of(const SweepRow& row, std::size_t series) const {
    if (x_.is_continuous) return x_of(row);
    return x_of(row) + bar_width() * (static_cast<double>(series) - static_cast<double>(series_.size() - 1) / 2);
  }

  std::string label_of(const SweepSeries& series) const {
    std::string label;
    for (std::size_t i = 0; i < series.others.size(); ++i)
      label += fmt::format("{}{}={}", i > 0 ? ", " : "", keys_[i + 1].label, series.others[i]);
    return label;
  }

  std::string label_of(const SweepRow& row) const {
    std::string label;
    for (std::size_t i = 0; i < keys_.size(); ++i)
      label += fmt::format("{}{}={}", i > 0 ? ", " : "", keys_[i].label, row.values[i]);
    return label;
  }

  std::string tip_of(const SweepRow& row) const {
    std::string tip = label_of(row);
    tip += fmt::format(": {}", name_of(row.status));
    if (row.peak_allocated) tip += fmt::format(", allocated {}", format_bytes(*row.peak_allocated));
    if (row.peak_reserved) tip += fmt::format(", reserved {}", format_bytes(*row.peak_reserved));
    if (row.samples_per_second) tip += fmt::format(", {:.1f} samples/s", *row.samples_per_second);
    return tip;
  }

  double highest(const RowFigure& figure) const {
    double most = 0;
    for (const SweepSeries& series : series_)
      for (const SweepRow* row : series.rows) most = std::max(most, figure(*row).value_or(0));
    return most;
  }

  /// Room for what fits and, where something does not, for the capacity; what needs far more is cut off.
  double highest_memory() const {
    double fitting = 0, capacity = 0, needed = 0;
    for (const SweepSeries& series : series_) {
      for (const SweepRow* row : series.rows) {
        if (lacks_memory(row->status)) {
          capacity = std::max(capacity, as_double(row->capacity).value_or(0));
          needed = std::max(needed, as_double(row->peak_reserved).value_or(0));
        } else {
          fitting = std::max(fitting, as_double(row->peak_reserved).value_or(0));
        }
      }
    }
    const double base = std::max({fitting, capacity, 1.0});
    return std::max(1.1 * base, std::min(1.05 * needed, 1.6 * base));
  }

  /// Behind the one that ended at (x, y), or in the next line.
  void draw_entry(double& x, double& y, const std::string& text, const std::function<void(double)>& draw_sample) {
    const double needed = 30 + text_width(text) + 18;
    if (x > left_edge && x + needed > right_edge) {
      x = left_edge;
      y += 20;
    }
    draw_sample(x);
    drawing_.text({x + 30, y + 4}, text, "");
    x += needed;
  }

  /// Entries from left to right, in as many lines as they need. Returns where the last line ends.
  double draw_legend(double y) {
    double x = left_edge;
    const auto entry = [&](const std::string& text, const std::function<void(double)>& draw_sample) {
      draw_entry(x, y, text, draw_sample);
    };
    const bool has_combinations = keys_.size() > 1;
    for (std::size_t i = 0; has_combinations && i < series_.size(); ++i) {
      entry(label_of(series_[i]), [&](double at) {
        if (x_.is_continuous) drawing_.line({at, y}, {at + 24, y}, fmt::format("line k{}", i));
        if (x_.is_continuous)
          drawing_.marker(series_markers[i % series_markers.size()], {at + 12, y}, fmt::format("f{}", i));
        else
          drawing_.rectangle({at + 6, y - 6}, 12, 12, fmt::format("f{}", i));
      });
    }
    if (num_left_out_ > 0)
      entry(
          fmt::format("and {} in sweep.csv", format_number_of(static_cast<std::int64_t>(num_left_out_), "combination")),
          [](double) {});
    if (has_combinations) {
      x = left_edge;
      y += 20;
    }
    const bool is_line = x_.is_continuous;
    entry("reserved", [&](double at) {
      if (is_line)
        drawing_.line({at, y}, {at + 24, y}, "line k0");
      else
        drawing_.rectangle({at + 6, y - 6}, 12, 12, "f0 pale");
      if (is_line) drawing_.marker(series_markers[0], {at + 12, y}, "f0");
    });
    entry("allocated", [&](double at) {
      if (is_line)
        drawing_.line({at, y}, {at + 24, y}, "thin k0");
      else
        drawing_.rectangle({at + 6, y - 6}, 12, 12, "f0");
      if (is_line) drawing_.marker(series_markers[0], {at + 12, y}, "hollow k0");
    });
    if (shows_capacity()) entry("capacity", [&](double at) { drawing_.line({at, y}, {at + 24, y}, "capacity"); });
    if (std::any_of(rows_.begin(), rows_.end(), [](const SweepRow& row) { return lacks_memory(row.status); }))
      entry(planned_ ? "does not fit" : "out of memory", [&](double at) {
        drawing_.marker(Marker::cross, {at + 12, y}, "cross");
      });
    return y;
  }

  void draw_frame(const PlotPanel& panel, const std::string& title) {
    for (const AxisTick& tick : panel.axis.ticks) {
      const double y = panel.bottom() - panel.height * tick.at;
      drawing_.line({left_edge, y}, {right_edge, y}, tick.at == 0 ? "axis" : "grid");
      drawing_.text({left_edge - 8, y + 4}, tick.label, "end soft");
    }
    drawing_.upright_text({16, panel.top + panel.height / 2}, title, "middle");
  }

  void draw_values() {
    // Labels that would run into each other are left out.
    double free_from = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double x = left_edge + (right_edge - left_edge) * x_.positions[i];
      const std::string label = cut_to_width(values_[i], 24);
      drawing_.line({x, speed_.bottom()}, {x, speed_.bottom() + 5}, "axis");
      drawing_.line({x, memory_.bottom()}, {x, memory_.bottom() + 5}, "axis");
      if (x - text_width(label) / 2 < free_from) continue;
      free_from = x + text_width(label) / 2 + 8;
      drawing_.text({x, speed_.bottom() + 20}, label, "middle soft");
    }
    drawing_.text({(left_edge + right_edge) / 2, speed_.bottom() + 42},
                  keys_.front().key + (x_.is_logarithmic ? " (logarithmic)" : ""), "middle");
  }

  bool shows_capacity() const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const SweepRow& row) {
      return row.capacity && static_cast<double>(*row.capacity) <= highest_memory();
    });
  }

  /// A line where each value has one capacity, steps where they differ.
  void draw_capacity() {
    std::vector<SvgPoint> points;
    std::optional<std::int64_t> first, last;
    for (const std::string& value : values_) {
      std::optional<std::int64_t> lowest;
      double x = 0;
      for (const SweepRow& row : rows_) {
        if (row.values.front() != value || !row.capacity) continue;
        lowest = std::min(lowest.value_or(std::numeric_limits<std::int64_t>::max()), *row.capacity);
        x = x_of(row);
      }
      if (!lowest || static_cast<double>(*lowest) > memory_.axis.end) continue;
      const double y = memory_.y(static_cast<double>(*lowest));
      if (points.empty()) points.push_back({left_edge, y});
      if (!first) first = lowest;
      if (last && *last != *lowest) points.push_back({x, points.back().y});
      points.push_back({x, y});
      last = lowest;
    }
    if (points.empty()) return;
    points.push_back({right_edge, points.back().y});
    drawing_.polyline(points, "capacity");
    drawing_.text({left_edge + 6, points.front().y - 6}, "capacity " + format_bytes(*first), "soft");
  }

  void draw_line(const PlotPanel& panel, std::size_t number, const RowFigure& figure, const char* line,
                 const char* marker) {
    std::vector<SvgPoint> points;
    for (const SweepRow* row : series_[number].rows) {
      const std::optional<double> value = figure(*row);
      // Crosses stand where memory lacked.
      if (value && !lacks_memory(row->status)) points.push_back({x_of(*row), panel.y(*value)});
    }
    drawing_.polyline(points, fmt::format("{} k{}", line, number));
    for (const SweepRow* row : series_[number].rows) {
      const std::optional<double> value = figure(*row);
      if (!value || lacks_memory(row->status)) continue;
      drawing_.marker(series_markers[number % series_markers.size()], {x_of(*row), panel.y(*value)},
                      fmt::format("{}{}", marker, number), tip_of(*row));
    }
  }

  void draw_lines(std::size_t number) {
    draw_line(memory_, number, allocated_of, "thin", "hollow k");
    draw_line(memory_, number, reserved_of, "line", "f");
    draw_line(speed_, number, speed_of, "line", "f");
  }

  void draw_bar(const PlotPanel& panel, std::size_t number, const RowFigure& figure, const std::string& classes) {
    const double bar = bar_width();
    for (const SweepRow* row : series_[number].rows) {
      const std::optional<double> value = figure(*row);
      if (!value || lacks_memory(row->status)) continue;
      const double y = panel.y(*value);
      drawing_.rectangle({x_of(*row, number) - bar / 2 + 1, y}, bar - 2, panel.bottom() - y, classes, tip_of(*row));
    }
  }

  void draw_bars(std::size_t number) {
    draw_bar(memory_, number, reserved_of, fmt::format("f{} pale", number));
    draw_bar(memory_, number, allocated_of, fmt::format("f{}", number));
    draw_bar(speed_, number, speed_of, fmt::format("f{}", number));
  }

  /// Crosses at what was needed, or at the capacity where that is not known; a word where nothing was measured.
  void draw_failures(std::size_t number) {
    for (const SweepRow* row : series_[number].rows) {
      const double x = x_of(*row, number);
      if (lacks_memory(row->status)) {
        double needed = as_double(row->capacity).value_or(memory_.axis.end);
        if (row->status == PointStatus::does_not_fit) needed = as_double(row->peak_reserved).value_or(needed);
        drawing_.marker(Marker::cross, {x, memory_.y(needed)},
                        series_.size() > 1 ? fmt::format("cross k{}", number) : "cross", tip_of(*row));
      } else if (!row->peak_reserved) {
        drawing_.upright_text({x + 4, memory_.bottom() - 8}, name_of(row->status), "bad");
      }
    }
  }

  /// Panels over the steps, one for each kind of curve that any point has. Returns where the picture ends.
  double draw_curves(double top) {
    for (const SweepSeries& series : series_)
      for (const SweepRow* row : series.rows)
        if (!row->train_losses.empty() || !row->evaluations.empty()) curve_rows_.push_back(row);
    if (curve_rows_.empty()) return top;
    const std::size_t num_cut = curve_rows_.size() - std::min(curve_rows_.size(), most_plotted_curves);
    curve_rows_.resize(curve_rows_.size() - num_cut);
    for (const SweepRow* row : curve_rows_) {
      for (const CurvePoint& point : row->train_losses) last_step_ = std::max(last_step_, point.step);
      for (const EvaluatedPoint& point : row->evaluations) last_step_ = std::max(last_step_, point.step);
    }
    double x = left_edge, y = top + 24;
    for (std::size_t i = 0; i < curve_rows_.size(); ++i)
      draw_entry(x, y, label_of(*curve_rows_[i]), [&](double at) {
        drawing_.line({at, y}, {at + 24, y}, curve_classes(i));
        drawing_.marker(series_markers[i % series_markers.size()], {at + 12, y}, fmt::format("f{}", i % num_colours));
      });
    if (num_cut > 0)
      draw_entry(x, y,
                 fmt::format("and {} in sweep.jsonl", format_number_of(static_cast<std::int64_t>(num_cut), "curve")),
                 [](double) {});
    double bottom = y - 10;
    const auto add_panel = [&](const std::string& title, const CurveOf& curve_of) {
      bottom = draw_curve_panel(bottom + between_panels, title, curve_of).value_or(bottom);
    };
    add_panel("training loss", train_losses_of);
    add_panel("validation loss", evaluated_losses_of);
    add_panel("accuracy", accuracies_of);
    drawing_.text({(left_edge + right_edge) / 2, bottom + 42}, "step", "middle");
    return bottom + 56;
  }

  static std::string curve_classes(std::size_t number) {
    return fmt::format("line{} k{}", number / num_colours % 2 == 1 ? " dashed" : "", number % num_colours);
  }

  double x_of_step(std::int64_t step) const {
    return left_edge + (right_edge - left_edge) * static_cast<double>(step) / static_cast<double>(last_step_);
  }

  /// Where it ends; nothing where no point has such a curve.
  std::optional<double> draw_curve_panel(double top, const std::string& title, const CurveOf& curve_of) {
    std::vector<Curve> curves;
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    std::vector<double> starts;
    for (const SweepRow* row : curve_rows_) {
      curves.push_back(curve_of(*row));
      // Evaluations begin when much is learned already.
      if (!row->train_losses.empty()) starts.push_back(row->train_losses.front().value);
      if (curves.back().empty()) continue;
      if (row->train_losses.empty()) starts.push_back(curves.back().front().value);
      for (const CurvePoint& point : curves.back()) {
        lowest = std::min(lowest, point.value);
        highest = std::max(highest, point.value);
      }
    }
    if (highest < lowest) return std::nullopt;
    // Those that diverge leave the picture at its upper edge, and do not flatten the others.
    constexpr double room_above_start = 2;
    const bool is_loss = title != "accuracy";
    std::sort(starts.begin(), starts.end());
    const double usual_start = starts[(starts.size() - 1) / 2];
    if (is_loss && usual_start > lowest) highest = std::min(highest, room_above_start * usual_start);
    const PlotPanel panel{top, curves_height, range_axis(lowest, highest)};
    draw_frame(panel, title + (panel.axis.is_logarithmic ? " (logarithmic)" : ""));
    const HeightAxis steps = number_axis(static_cast<double>(last_step_));
    for (const AxisTick& tick : steps.ticks) {
      const double at = tick.at * steps.end / static_cast<double>(last_step_);
      if (at > 1 || tick.label.find('.') != std::string::npos) continue;  // there is no half a step
      const double x = left_edge + (right_edge - left_edge) * at;
      drawing_.line({x, panel.bottom()}, {x, panel.bottom() + 5}, "axis");
      drawing_.text({x, panel.bottom() + 20}, tick.label, "middle soft");
    }
    for (std::size_t i = 0; i < curves.size(); ++i) {
      std::vector<SvgPoint> points;
      for (const CurvePoint& point : curves[i]) points.push_back({x_of_step(point.step), panel.y(point.value)});
      drawing_.polyline(points, curve_classes(i));
      // Few points are marked, and one alone is only seen by its mark.
      constexpr std::size_t most_marked = 24;
      for (std::size_t j = 0; curves[i].size() <= most_marked && j < points.size(); ++j)
        drawing_.marker(series_markers[i % series_markers.size()], points[j], fmt::format("f{}", i % num_colours),
                        fmt::format("{}: {} {:.6g} at step {}", label_of(*curve_rows_[i]), title, curves[i][j].value,
                                    curves[i][j].step));
    }
    return panel.bottom() + 4;
  }

  const std::string& title_;
  const std::vector<SweptKey>& keys_;
  const std::vector<SweepRow>& rows_;
  std::vector<SweepSeries> series_;
  std::size_t num_left_out_ = 0;
  std::vector<std::string> values_;  ///< of the first key
  ValueAxis x_;
  bool planned_ = false;
  SvgDrawing drawing_;
  PlotPanel memory_, speed_;
  std::vector<const SweepRow*> curve_rows_;  ///< that have curves, and are drawn
  std::int64_t last_step_ = 1;
};

}  // namespace

std::string sweep_plot(const std::string& title, const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows) {
  return SweepPlot(title, keys, rows).draw();
}

}  // namespace trainer
