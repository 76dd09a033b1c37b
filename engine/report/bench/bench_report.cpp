#include "engine/report/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

/// Lines of at most the style's width, each behind so many spaces.
std::string paragraph(std::string_view text, std::size_t indent, const Style& style) {
  const std::string spaces(indent, ' ');
  return spaces + wrap(text, static_cast<std::size_t>(style.width) - indent, spaces) + '\n';
}

/// "1.25": milliseconds with three digits; empty for nothing.
std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  if (ms <= 0) return "";
  if (ms < 0.001) return "<0.001";
  return fmt::format("{:.{}f}", ms, ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : 3);
}

std::string billions(double per_second) {
  const double value = per_second / 1e9;
  return fmt::format("{:.{}f}", value, value >= 10 ? 0 : 1);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// "+4 %".
std::string difference(double predicted, double measured) {
  return fmt::format("{:+.0f} %", 100 * (predicted / measured - 1));
}

std::string step_text(const BenchFindings& f, const Style& style) {
  const StepTiming& timing = f.timing;
  const double samples_per_second = static_cast<double>(f.samples_per_step()) / timing.step_seconds;
  std::string rate = samples_per_second_text(samples_per_second) + " samples";
  if (f.tokens_per_sample > 0)
    rate = fmt::format("{} tokens ({})",
                       samples_per_second_text(static_cast<double>(f.tokens_per_sample) * samples_per_second), rate);
  const std::string batch =
      f.num_micro_batches == 1 ? format_count(f.batch_size) : fmt::format("{} × {}", f.num_micro_batches, f.batch_size);
  std::string text = heading(style, "Step");
  text += fmt::format("  measured   {}, {} a second, batch {} (lower quartile of {})\n",
                      step_time_text(timing.step_seconds), rate, batch, format_number_of(timing.num_steps, "step"));
  text += fmt::format("  predicted  {} ({})\n", step_time_text(f.predicted.seconds),
                      difference(f.predicted.seconds, timing.step_seconds));
  text += paragraph(rates_sentence(f.rates.origin, f.rates.source), 13, style);
  const double outside = timing.step_seconds - timing.op_seconds() - timing.data_seconds - timing.host_seconds;
  text += fmt::format("  of it      ops {} · waiting for data {} · host {} · rest {}\n",
                      step_time_text(timing.op_seconds()), step_time_text(timing.data_seconds),
                      step_time_text(timing.host_seconds), outside > 0 ? step_time_text(outside) : "none");
  if (outside < -0.05 * timing.step_seconds)
    text += paragraph(
        "The ops, each measured by itself, take longer than the step: something else ran on this machine "
        "meanwhile, or the device runs them side by side.",
        2, style);
  return text;
}

std::string ceilings_text(const Ceilings& ceilings, const Style& style) {
  std::string flops = billions(ceilings.f32_flops_per_second) + " GFLOP/s";
  if (ceilings.half_flops_per_second > 0)
    flops += fmt::format(" (16 bit {} GFLOP/s)", billions(ceilings.half_flops_per_second));
  return paragraph(
      fmt::format("Of bound: the least time, at {} (a large product), {} GB/s (a large sum) and {} a call, "
                  "all measured in this run, as a share of the time taken.",
                  flops, billions(ceilings.bytes_per_second), step_time_text(ceilings.call_seconds)),
      2, style);
}

/// The columns behind the times.
void append_rates(const BenchRow& row, double total, std::vector<std::string>& cells) {
  cells.push_back(milliseconds(row.seconds()));
  cells.push_back(percent(row.seconds() / total));
  cells.push_back(row.flops > 0 ? billions(row.flops / row.seconds()) : "");
  cells.push_back(billions(row.num_bytes / row.seconds()));
  cells.push_back(row.bound_side());
  cells.push_back(percent(row.bound_seconds / row.seconds()));
}

void append_rate_columns(std::vector<TextTable::Column>& columns) {
  for (const char* title : {"ms", "share", "GFLOP/s", "GB/s"}) columns.push_back({title});
  columns.push_back({"bound", Align::left});
  columns.push_back({"of bound"});
}

std::string layer_table(const BenchFindings& findings, const Style& style) {
  const std::vector<BenchRow> rows = rows_by_layer(findings);
  struct PhaseColumn {
    const char* title;
    double BenchRow::*seconds;
  };
  std::vector<PhaseColumn> phases;
  // The update of all parameters at once is a row of its own, whose total says enough.
  const auto in_layers = std::span(rows).first(rows.empty() ? 0 : rows.size() - 1);
  for (const PhaseColumn& phase : {PhaseColumn{"forward", &BenchRow::forward},
                                   {"backward", &BenchRow::backward},
                                   {"recompute", &BenchRow::recompute},
                                   {"update", &BenchRow::update}}) {
    if (std::any_of(in_layers.begin(), in_layers.end(), [&](const BenchRow& row) { return row.*phase.seconds > 0; }))
      phases.push_back(phase);
  }
  std::vector<TextTable::Column> columns = {{"layer", Align::left}};
  for (const PhaseColumn& phase : phases) columns.push_back({phase.title});
  append_rate_columns(columns);
  TextTable table(std::move(columns));
  const double total = findings.timing.op_seconds();
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells = {row.name};
    for (const PhaseColumn& phase : phases) cells.push_back(milliseconds(row.*phase.seconds));
    append_rates(row, total, cells);
    table.add_row(std::move(cells));
  }
  return table.render(style);
}

std::string kind_table(const BenchFindings& findings, const Style& style) {
  std::vector<TextTable::Column> columns = {{"op", Align::left}, {"calls"}, {"predicted"}};
  append_rate_columns(columns);
  TextTable table(std::move(columns));
  for (const BenchRow& row : rows_by_kind(findings)) {
    std::vector<std::string> cells = {row.name, format_count(std::llround(row.num_calls)),
                                      milliseconds(row.predicted_seconds)};
    append_rates(row, findings.timing.op_seconds(), cells);
    table.add_row(std::move(cells));
  }
  return table.render(style);
}

bool beats_bound(const BenchFindings& findings) {
  const std::vector<BenchRow> rows = rows_by_kind(findings);
  return std::any_of(rows.begin(), rows.end(),
                     [](const BenchRow& row) { return row.bound_seconds > 1.05 * row.seconds(); });
}

}  // namespace

std::string bench_report(const BenchFindings& findings, const Style& style) {
  std::string text = fmt::format("{} on {}\n", findings.experiment_name, findings.device_name);
  text += step_text(findings, style);
  text += heading(style, "Layers, ms a step") + layer_table(findings, style);
  text += heading(style, "Ops, ms a step") + kind_table(findings, style);
  text += '\n' + ceilings_text(findings.ceilings, style);
  if (beats_bound(findings))
    text += paragraph(
        "More than 100 %: a convolution by Winograd's algorithm, which needs fewer operations than are "
        "counted, or operands that a cache held.",
        2, style);
  return text;
}

std::string calibration_report(const Calibration& calibration, const std::string& device_name, const std::string& path,
                               double seconds, const Style& style) {
  const FitQuality& quality = calibration.quality;
  std::string text = fmt::format("{}\n", device_name);
  TextTable table({{"op", Align::left}, {"GFLOP/s"}, {"GB/s"}, {"µs a call"}, {"16 bit: GFLOP/s"}, {"GB/s"}});
  const auto usual = static_cast<std::size_t>(RateClass::usual);
  for (const OpKind kind : {OpKind::linear, OpKind::linear_backward_weight, OpKind::conv2d,
                            OpKind::conv2d_backward_weight, OpKind::batchnorm2d, OpKind::layernorm,
                            OpKind::activation_backward, OpKind::add, OpKind::sgd_update, OpKind::adam_update}) {
    const OpRate& f32 = calibration.rates.f32[usual][static_cast<std::size_t>(kind)];
    const OpRate& half = calibration.rates.half[usual][static_cast<std::size_t>(kind)];
    table.add_row({std::string(name_of(kind)), billions(f32.flops_per_second), billions(f32.bytes_per_second),
                   fmt::format("{:.1f}", 1e6 * f32.call_seconds), billions(half.flops_per_second),
                   billions(half.bytes_per_second)});
  }
  text += heading(style, "Rates of some ops") + table.render(style);
  text += '\n' +
          paragraph(fmt::format("Measured {} in {}. Predicted times differ from them by {} for a call and by {} for a "
                                "step (medians). Run this again where the machine was busy or has changed.",
                                format_number_of(quality.num_calls, "call"), format_duration(seconds),
                                percent(quality.call_error), percent(quality.step_error)),
                    0, style);
  text += fmt::format("Stored in {}\n", path);
  return text;
}

}  // namespace trainer
