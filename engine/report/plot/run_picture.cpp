#include "engine/report/plot/run_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/text/json_input.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/report/compare/figure_kinds.h"
#include "engine/report/compare/run_labels.h"
#include "engine/report/plot/curve_range.h"
#include "engine/report/text/nearest_integer.h"

namespace trainer {
namespace {

constexpr std::size_t plotted_buckets = 400;

struct PlottedStage {
  std::string name{};
  std::int64_t first_step = 0, steps_per_epoch = 0, planned_peak_reserved = 0;
};

std::vector<PlottedStage> stages_of(const RunRecord& record) {
  std::vector<PlottedStage> stages;
  try {
    for (const Json& stage : record.stages) {
      const JsonInput<Json> event(stage);
      stages.push_back({.name = event.at("stage").text(),
                        .first_step = event.at("first_step").integer(),
                        .steps_per_epoch = event.at("steps_per_epoch").integer(),
                        .planned_peak_reserved = event.at("planned_peak_reserved").integer()});
    }
  } catch (const JsonMistake& mistake) {
    throw DataError(fmt::format("{}: event 'stage': {}", record.path, mistake.what()));
  }
  return stages;
}

/// Where the steps of a run lie on the axis; places are ascending, and infinite where times that were told add up to
/// more than there are numbers for.
class StepPlaces {
 public:
  StepPlaces(const RunRecord& record, RunAxis axis) : record_(record) {
    double seconds = 0;
    auto evaluation = record.evaluations.begin();
    std::map<std::int64_t, std::int64_t> steps_per_epoch;  // by the first step of a stage
    for (const PlottedStage& stage : stages_of(record)) steps_per_epoch[stage.first_step] = stage.steps_per_epoch;
    std::int64_t epoch = -1, first_of_epoch = 0;
    for (const RecordedStep& step : record.steps) {
      for (; evaluation != record.evaluations.end() && evaluation->step < step.step; ++evaluation)
        seconds += evaluation->seconds;
      seconds += step.seconds;
      if (step.epoch != epoch) {
        epoch = step.epoch;
        first_of_epoch = step.step;
      }
      auto stage = steps_per_epoch.upper_bound(step.step);
      const std::int64_t length = stage == steps_per_epoch.begin() ? record.steps_per_epoch : (--stage)->second;
      const double part =
          static_cast<double>(step.step - first_of_epoch + 1) / static_cast<double>(std::max<std::int64_t>(length, 1));
      places_.push_back(axis == RunAxis::step   ? static_cast<double>(step.step)
                        : axis == RunAxis::time ? seconds
                                                : static_cast<double>(step.epoch - 1) + std::min(part, 1.0));
    }
  }

  double of_index(std::size_t index) const { return places_[index]; }
  /// Of the last step that is not behind it; 0 in front of all.
  double of_step(std::int64_t step) const {
    const auto next =
        std::upper_bound(record_.steps.begin(), record_.steps.end(), step,
                         [](std::int64_t number, const RecordedStep& other) { return number < other.step; });
    return next == record_.steps.begin() ? 0 : places_[static_cast<std::size_t>(next - record_.steps.begin()) - 1];
  }
  /// The last that is finite.
  double last() const {
    const auto place =
        std::find_if(places_.rbegin(), places_.rend(), [](double number) { return std::isfinite(number); });
    return place == places_.rend() ? 0 : *place;
  }

 private:
  const RunRecord& record_;
  std::vector<double> places_;
};

using StepFigure = std::function<double(const RecordedStep&)>;

const RecordedMemory& memory_in_step(const RecordedStep& step) { return step.memory; }

class RunPicture {
 public:
  RunPicture(const std::vector<RunRecord>& records, const RunPictureOptions& options)
      : records_(records), options_(options) {
    for (const RunRecord& record : records) {
      places_.emplace_back(record, options.axis);
      picture_.x_end = places_.size() == 1 ? places_.back().last() : std::max(picture_.x_end, places_.back().last());
    }
    if (!(picture_.x_end > 0)) picture_.x_end = 1;
  }

  CurvePicture make() {
    if (std::all_of(records_.begin(), records_.end(), [](const RunRecord& record) { return record.steps.empty(); }))
      throw DataError(
          fmt::format("'{}' has no step to plot: it ended as '{}'", records_.front().path, records_.front().status()));
    const std::vector<std::string> labels = run_labels(records_);
    if (is_alone()) {
      const RunRecord& run = records_.front();
      picture_.title = fmt::format("{}: {} of {} steps", labels.front(), run.steps.back().step, run.total_steps);
    } else {
      picture_.title = fmt::format("{} runs", records_.size());
      for (std::size_t run = 0; run < records_.size(); ++run)
        picture_.owners.push_back({run_letter_of(run), labels[run], run});
    }
    set_x_axis();
    for (const std::string& name : options_.of) add_panel(name);
    add_stages();
    return std::move(picture_);
  }

 private:
  bool is_alone() const { return records_.size() == 1; }
  static std::string run_letter_of(std::size_t run) { return std::string(1, static_cast<char>('A' + run)); }

  void set_x_axis() {
    constexpr double minute = 60, hour = 3600, few = 2;
    double unit = 1;
    picture_.x_title = options_.axis == RunAxis::epoch ? "epoch" : "step";
    if (options_.axis == RunAxis::time) {
      unit = picture_.x_end < few * minute ? 1 : picture_.x_end < few * hour ? minute : hour;
      picture_.x_title = unit == 1 ? "seconds" : unit == minute ? "minutes" : "hours";
    }
    picture_.x_unit = unit;
    const HeightAxis axis = number_axis(picture_.x_end / unit);
    for (const AxisTick& tick : axis.ticks) {
      const double value = tick.at * axis.end, at = value * unit / picture_.x_end;
      const bool is_whole = value == std::floor(value) && value < 1e15;
      if (at > 1 + 1e-9 || (options_.axis == RunAxis::step && !is_whole)) continue;  // there is no half a step
      picture_.x_ticks.push_back({std::min(at, 1.0), is_whole ? format_count(nearest_integer(value)) : tick.label});
    }
  }

  PlotCurve curve_of(std::size_t run, const StepFigure& figure) const {
    std::vector<PlotPoint> points;
    for (std::size_t i = 0; i < records_[run].steps.size(); ++i)
      if (const double place = places_[run].of_index(i); std::isfinite(place))
        points.push_back({place, figure(records_[run].steps[i])});
    return {.colour = run, .points = thinned(points, picture_.x_begin, picture_.x_end, plotted_buckets)};
  }

  /// What evaluations told; `value_of` tells nothing where one did not.
  PlotCurve evaluations_of(std::size_t run,
                           const std::function<std::optional<double>(const RecordedEvaluation&)>& value_of) const {
    std::vector<PlotPoint> points;
    for (const RecordedEvaluation& evaluation : records_[run].evaluations)
      if (const std::optional<double> value = value_of(evaluation)) {
        const double place = places_[run].of_step(evaluation.step);
        if (std::isfinite(place)) points.push_back({place, *value});
      }
    return {.colour = run, .points = thinned(points, picture_.x_begin, picture_.x_end, plotted_buckets)};
  }

  void add_panel(const std::string& name) {
    if (name == "loss")
      add_losses();
    else if (name == "lr")
      add_rates();
    else if (name == "memory")
      add_memory();
    else if (name == "speed")
      add_speed();
    else
      add_metric(name);
  }

  /// With the letter of its run, or its own where there is one run.
  void add_curve(CurvePanel& panel, PlotCurve curve, const std::string& figure, const std::string& letter,
                 std::size_t own_colour, CurveForm form) const {
    if (curve.points.empty()) return;
    curve.figure = figure;
    curve.form = form;
    if (is_alone()) {
      curve.letter = letter;
      curve.colour = own_colour;
    } else {
      curve.letter = form == CurveForm::marks ? std::string(1, static_cast<char>('a' + curve.colour))
                                              : run_letter_of(curve.colour);
    }
    panel.curves.push_back(std::move(curve));
  }

  /// Its axis for numbers, linear or logarithmic, and not above `most`.
  void finish_numbers(CurvePanel panel, bool may_be_logarithmic,
                      double most = std::numeric_limits<double>::infinity()) {
    const bool is_asked = options_.logarithmic && may_be_logarithmic;
    auto range = range_of_curves(panel, is_asked);
    const bool is_logarithmic = is_asked && range.has_value();
    if (!range) range = range_of_curves(panel);
    if (!range) return;
    const double highest = std::max(std::min(range->second, most), range->first);
    panel.axis = is_logarithmic ? logarithmic_axis(range->first, highest) : linear_axis(range->first, highest);
    if (is_logarithmic) {
      panel.title += " (logarithmic)";
      for (PlotCurve& curve : panel.curves)
        for (PlotPoint& point : curve.points)
          if (!(point.y > 0)) point.y = std::numeric_limits<double>::quiet_NaN();
    }
    tell_what_is_cut(panel, range->second);
    picture_.panels.push_back(std::move(panel));
  }

  void add_losses() {
    CurvePanel panel{.title = "loss"};
    for (std::size_t run = 0; run < records_.size(); ++run)
      add_curve(panel, curve_of(run, [](const RecordedStep& step) { return step.loss; }), "training", "t", 0,
                CurveForm::solid);
    for (std::size_t run = 0; run < records_.size(); ++run)
      add_curve(panel, evaluations_of(run, [](const RecordedEvaluation& evaluation) { return evaluation.loss; }),
                "evaluation", "o", 1, CurveForm::marks);
    const double most = most_shown_loss(panel);
    finish_numbers(std::move(panel), true, most);
  }

  void add_rates() {
    CurvePanel panel{.title = "learning rate"};
    for (std::size_t run = 0; run < records_.size(); ++run)
      add_curve(panel, curve_of(run, [](const RecordedStep& step) { return step.learning_rate; }), "", "", 0,
                CurveForm::solid);
    finish_numbers(std::move(panel), true);
  }

  /// In tokens where all that have steps count them.
  void add_speed() {
    const bool counts_tokens = std::all_of(records_.begin(), records_.end(), [](const RunRecord& record) {
      return record.steps.empty() || record.steps.back().tokens_per_second > 0;
    });
    CurvePanel panel{.title = counts_tokens ? "tokens/s" : "samples/s"};
    for (std::size_t run = 0; run < records_.size(); ++run)
      add_curve(panel,
                curve_of(run,
                         [&](const RecordedStep& step) {
                           return counts_tokens ? step.tokens_per_second : step.samples_per_second;
                         }),
                "", "", 0, CurveForm::solid);
    const auto range = range_of_curves(panel);
    if (!range) return;
    panel.axis = number_axis(range->second);
    picture_.panels.push_back(std::move(panel));
  }

  void add_metric(const std::string& name) {
    const FigureKind* const kind = figure_kind(name);
    CurvePanel panel{.title = std::string(kind == nullptr ? name : kind->label)};
    for (std::size_t run = 0; run < records_.size(); ++run)
      add_curve(panel,
                evaluations_of(run,
                               [&](const RecordedEvaluation& evaluation) -> std::optional<double> {
                                 for (const auto& [metric, value] : evaluation.metrics)
                                   if (metric == name) return value;
                                 return std::nullopt;
                               }),
                "", "", 0, CurveForm::solid);
    if (panel.curves.empty())
      throw DataError(fmt::format("--of {}: no evaluation of {} tells it", name,
                                  is_alone() ? fmt::format("'{}'", records_.front().path) : "these runs"));
    finish_numbers(std::move(panel), kind != nullptr && kind->worse == WorseIf::more);
  }

  PlotCurve memory_curve(std::size_t run, std::int64_t RecordedMemory::*bytes) const {
    return curve_of(run, [=](const RecordedStep& step) { return static_cast<double>(memory_in_step(step).*bytes); });
  }

  /// What the plan said of each stage, or of the whole; no points where nothing was planned.
  PlotCurve planned_curve(std::size_t run) const {
    const RunRecord& record = records_[run];
    PlotCurve curve{.colour = run};
    if (record.steps.empty()) return curve;
    std::vector<std::pair<std::int64_t, std::int64_t>> planned;  // from which step on
    for (const PlottedStage& stage : stages_of(record))
      planned.emplace_back(stage.first_step, stage.planned_peak_reserved);
    if (planned.empty()) planned.emplace_back(1, record.planned_peak_reserved);
    for (std::size_t i = 0; i < planned.size(); ++i) {
      const double begin = i == 0 ? picture_.x_begin : places_[run].of_step(planned[i].first - 1);
      const double end = i + 1 < planned.size() ? places_[run].of_step(planned[i + 1].first - 1) : places_[run].last();
      const double height =
          planned[i].second > 0 ? static_cast<double>(planned[i].second) : std::numeric_limits<double>::quiet_NaN();
      curve.points.push_back({begin, height});
      curve.points.push_back({end, height});
    }
    const bool is_known = std::any_of(curve.points.begin(), curve.points.end(),
                                      [](const PlotPoint& point) { return std::isfinite(point.y); });
    if (!is_known) curve.points.clear();
    return curve;
  }

  void add_memory() {
    CurvePanel panel{.title = "memory"};
    for (std::size_t run = 0; run < records_.size(); ++run) {
      if (is_alone()) {
        add_curve(panel, memory_curve(run, &RecordedMemory::device_used), "used", "u", 3, CurveForm::solid);
        add_curve(panel, memory_curve(run, &RecordedMemory::allocated), "allocated", "a", 2, CurveForm::dashed);
      }
      add_curve(panel, memory_curve(run, &RecordedMemory::peak_reserved), "peak reserved", "r", 0, CurveForm::solid);
      add_curve(panel, memory_curve(run, &RecordedMemory::peak_allocated), "peak allocated", "p", 1, CurveForm::dashed);
      add_curve(panel, planned_curve(run), "planned peak reserved", "P", 5, CurveForm::dotted);
    }
    const auto range = range_of_curves(panel);
    if (!range) return;
    const double highest = add_capacities(panel, range->second);
    panel.axis = bytes_axis(highest);
    picture_.panels.push_back(std::move(panel));
  }

  /// Lines for those that are not far above what was held. Returns the highest of what is drawn.
  double add_capacities(CurvePanel& panel, double held) const {
    constexpr double far_above = 4;
    std::map<std::int64_t, std::string> capacities;
    for (std::size_t run = 0; run < records_.size(); ++run)
      if (records_[run].capacity > 0) capacities[records_[run].capacity] += run_letter_of(run);
    double highest = held;
    std::vector<std::int64_t> above;  // ascending
    for (const auto& [capacity, runs] : capacities) {
      const std::string label = fmt::format("capacity{} {}", capacities.size() > 1 ? fmt::format(" of {}", runs) : "",
                                            format_bytes(capacity));
      if (static_cast<double>(capacity) > far_above * held) {
        above.push_back(capacity);
        continue;
      }
      panel.levels.push_back({label, "c", static_cast<double>(capacity)});
      highest = std::max(highest, static_cast<double>(capacity));
    }
    if (above.size() == 1) panel.remark = fmt::format("capacity {}, far above", format_bytes(above.front()));
    if (above.size() > 1)
      panel.remark =
          fmt::format("capacities {} to {}, far above", format_bytes(above.front()), format_bytes(above.back()));
    return highest;
  }

  void add_stages() {
    for (std::size_t run = 0; run < records_.size(); ++run) {
      for (const PlottedStage& stage : stages_of(records_[run])) {
        const PlotMark mark{places_[run].of_step(stage.first_step - 1), shortened(stage.name, 40)};
        const bool is_there = std::any_of(picture_.marks.begin(), picture_.marks.end(), [&](const PlotMark& other) {
          return other.label == mark.label && std::abs(other.x - mark.x) < 1e-9 * picture_.x_end;
        });
        if (!is_there) picture_.marks.push_back(mark);
      }
    }
    std::stable_sort(picture_.marks.begin(), picture_.marks.end(),
                     [](const PlotMark& a, const PlotMark& b) { return a.x < b.x; });
  }

  const std::vector<RunRecord>& records_;
  const RunPictureOptions& options_;
  std::vector<StepPlaces> places_;
  CurvePicture picture_;
};

}  // namespace

const std::vector<std::string>& panel_names() {
  static const std::vector<std::string> names = {"loss",     "lr",   "memory", "speed", "accuracy",   "top5",
                                                 "mean_iou", "dice", "mae",    "r2",    "perplexity", "bits_per_byte"};
  return names;
}

CurvePicture run_picture(const std::vector<RunRecord>& records, const RunPictureOptions& options) {
  return RunPicture(records, options).make();
}

}  // namespace trainer
