#include "engine/report/plan/prediction_plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string inputs_text(const PredictionPlanFindings& findings, std::int64_t count) {
  if (findings.window_length == 0) return format_number_of(count, "input");
  return fmt::format("{} of {}", format_number_of(count, "window"), format_number_of(findings.window_length, "token"));
}

std::string prediction_verdict(const PredictionPlanFindings& findings, const Style& style) {
  const std::string capacity =
      fmt::format("the capacity of {} ({})", format_bytes(findings.capacity.num_bytes), findings.capacity.origin);
  const auto width = static_cast<std::size_t>(style.width);
  if (findings.plan.fits)
    return paint(style, Ink::green,
                 wrap(fmt::format("Fits. It reserves {} of {}.", format_bytes(findings.plan.peak_reserved), capacity),
                      width)) +
           '\n';
  const std::int64_t fitting = findings.fitting_batch.value_or(0);
  return paint(style, Ink::red,
               wrap(fmt::format("Does not fit {}. Without a bound it would reserve {}.", capacity,
                                format_bytes(findings.shown().peak_reserved)),
                    width)) +
         '\n' +
         wrap(fitting > 0 ? fmt::format("A batch of {} fits: --batch {}.", inputs_text(findings, fitting), fitting)
                          : fmt::format("Not even a batch of {} fits.", inputs_text(findings, 1)),
              width) +
         '\n';
}

std::string prediction_table(const PredictionPlanFindings& findings, const Style& style) {
  const MemoryPlan& plan = findings.shown();
  TextTable table({{"", Align::left}, {""}, {"", Align::left, Narrow::gives_way}});
  table.add_row({"parameters", format_bytes(findings.parameter_bytes),
                 fmt::format("{} of them", format_count(findings.num_parameters))});
  table.add_row({"everything else", format_bytes(plan.peak_allocated - findings.parameter_bytes),
                 fmt::format("at the peak: {}", plan.peak.layer)});
  table.add_rule();
  table.add_row({"peak allocated", format_bytes(plan.peak_allocated), "in blocks of 512 bytes"});
  table.add_row({"peak reserved", format_bytes(plan.peak_reserved), "in segments"});
  return table.render(style);
}

}  // namespace

std::string prediction_plan_line(const PredictionPlanFindings& findings) {
  return fmt::format(
      "Batches of {}{}: parameters {}, peak {} of {} ({}).",
      findings.window_length > 0 ? inputs_text(findings, findings.batch_size) : fmt::format("{}", findings.batch_size),
      findings.odd_batch_size > 0 ? fmt::format(", the last of {}", findings.odd_batch_size) : "",
      format_bytes(findings.parameter_bytes), format_bytes(findings.plan.peak_reserved),
      format_bytes(findings.capacity.num_bytes), findings.capacity.origin);
}

std::string prediction_plan_report(const PredictionPlanFindings& findings, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = paint(style, Ink::bold,
                           wrap(fmt::format("{}: predictions in batches of {} on {}", findings.experiment_name,
                                            inputs_text(findings, findings.batch_size), findings.device_name),
                                width)) +
                     "\n\n" + prediction_table(findings, style) + '\n';
  text += process_line(findings.process, findings.shown().peak_touched, findings.outside_allocator, style);
  if (findings.is_found && findings.plan.fits && findings.batch_size < findings.most_tried)
    text += wrap(fmt::format("The batch is the largest that fits, of up to {}; --predict N plans another.",
                             findings.most_tried),
                 width) +
            '\n';
  for (const std::string& note : findings.notes) text += paint(style, Ink::yellow, wrap("Note: " + note, width)) + '\n';
  return text + '\n' + prediction_verdict(findings, style);
}

std::string prediction_plan_json(const PredictionPlanFindings& findings) {
  const MemoryPlan& plan = findings.shown();
  return json_text(Json{
      {"event", "prediction_plan"},
      {"schema", event_schema_version},
      {"name", findings.experiment_name},
      {"device", {{"kind", findings.device_kind}, {"name", findings.device_name}}},
      {"profile", findings.profile.empty() ? Json(nullptr) : Json(findings.profile)},
      {"fits", findings.plan.fits},
      {"capacity", findings.capacity.num_bytes},
      {"capacity_from", findings.capacity.origin},
      {"batch_size", findings.batch_size},
      {"odd_batch_size", findings.odd_batch_size},
      {"fitting_batch_size", findings.fitting_batch ? Json(*findings.fitting_batch) : Json(nullptr)},
      {"parameters", findings.num_parameters},
      {"parameter_bytes", findings.parameter_bytes},
      {"peak_requested", plan.peak_requested},
      {"peak_allocated", plan.peak_allocated},
      {"peak_reserved", plan.peak_reserved},
      {"peak", {{"bytes", plan.peak.allocated}, {"layer", plan.peak.layer}, {"op", plan.peak.op}}},
      {"by_category", by_category_of(plan.peak.live.by_category)},
      {"by_layer", by_layer_of(plan.peak.live.by_layer)},
      {"top", top_of(plan.peak.live.top)},
      {"outside_allocator", outside_allocator_of(findings.outside_allocator)},
      {"process", process_memory_json(findings.process, plan.peak_touched)},
      {"notes", findings.notes},
  });
}

}  // namespace trainer
