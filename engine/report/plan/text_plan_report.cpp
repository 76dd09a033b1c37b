#include "engine/report/plan/text_plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/memory/process_report.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string tokens_text(std::int64_t count) { return format_number_of(count, "token"); }

std::string text_verdict(const TextPlanFindings& findings, const Style& style) {
  const std::string capacity =
      fmt::format("the capacity of {} ({})", format_bytes(findings.capacity.num_bytes), findings.capacity.origin);
  const auto width = static_cast<std::size_t>(style.width);
  if (findings.plan.fits)
    return paint(style, Ink::green,
                 wrap(fmt::format("Fits. It reserves {} of {}.", format_bytes(findings.plan.peak_reserved), capacity),
                      width)) +
           '\n';
  return paint(style, Ink::red,
               wrap(fmt::format("Does not fit {}. Without a bound it would reserve {}.", capacity,
                                format_bytes(findings.shown().peak_reserved)),
                    width)) +
         '\n';
}

std::string text_memory_table(const TextPlanFindings& findings, const Style& style) {
  const MemoryPlan& plan = findings.shown();
  TextTable table({{"", Align::left}, {""}, {"", Align::left, Narrow::gives_way}});
  table.add_row({"parameters", format_bytes(findings.parameter_bytes),
                 fmt::format("{} of them", format_count(findings.num_parameters))});
  table.add_row({"keys and values", format_bytes(findings.cache_bytes),
                 fmt::format("{} a token, of all but the last", format_bytes(findings.bytes_a_token()))});
  table.add_row({"everything else", format_bytes(plan.peak_allocated - findings.parameter_bytes - findings.cache_bytes),
                 fmt::format("at the peak: {}", plan.peak.layer)});
  table.add_rule();
  table.add_row({"peak allocated", format_bytes(plan.peak_allocated), "in blocks of 512 bytes"});
  table.add_row({"peak reserved", format_bytes(plan.peak_reserved), "in segments"});
  return table.render(style);
}

std::string longest_sentence(const TextPlanFindings& findings) {
  const std::int64_t longest = findings.longest_that_fits.value_or(0);
  if (longest == 0) return "Not even a text of one token fits.";
  if (longest == findings.longest_text)
    return fmt::format("Every text fits that the model has places for: up to {}.", tokens_text(longest));
  if (longest == most_tried_length) return fmt::format("Texts of {} fit, and longer ones.", tokens_text(longest));
  return fmt::format("The longest text that fits: {}.", tokens_text(longest));
}

}  // namespace

std::string text_plan_ending(const TextPlanFindings& findings, const Style& style) {
  std::string text = findings.longest_that_fits ? longest_sentence(findings) : "";
  if (findings.half)
    text += fmt::format(" With {} this one fits, and reserves {}.", findings.half->set,
                        format_bytes(findings.half->peak_reserved));
  return wrap(text, static_cast<std::size_t>(style.width)) + '\n';
}

std::string text_plan_report(const TextPlanFindings& findings, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = paint(style, Ink::bold,
                           wrap(fmt::format("{}: a text of {} on {}", findings.experiment_name,
                                            tokens_text(findings.length), findings.device_name),
                                width)) +
                     "\n\n" + text_memory_table(findings, style) + '\n';
  text += process_line(findings.process, findings.shown().peak_touched, findings.outside_allocator, style);
  for (const std::string& note : findings.notes) text += paint(style, Ink::yellow, wrap("Note: " + note, width)) + '\n';
  return text + '\n' + text_verdict(findings, style) + text_plan_ending(findings, style);
}

std::string text_plan_json(const TextPlanFindings& findings) {
  const MemoryPlan& plan = findings.shown();
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json half = nullptr;
  if (findings.half)
    half = {{"set", Json::array({findings.half->set})}, {"peak_reserved", findings.half->peak_reserved}};
  const auto memory_at = [&](std::int64_t step) {
    const StepMemory* const memory = plan.find(step, false);
    return memory != nullptr ? step_memory_of(*memory) : Json(nullptr);
  };
  return json_text(Json{
      {"event", "text_plan"},
      {"schema", event_schema_version},
      {"name", findings.experiment_name},
      {"device", {{"kind", findings.device_kind}, {"name", findings.device_name}}},
      {"profile", or_null(findings.profile)},
      {"fits", findings.plan.fits},
      {"capacity", findings.capacity.num_bytes},
      {"capacity_from", findings.capacity.origin},
      {"tokens", findings.length},
      {"parameters", findings.num_parameters},
      {"parameter_bytes", findings.parameter_bytes},
      {"cache_bytes", findings.cache_bytes},
      {"cache_bytes_a_token", findings.bytes_a_token()},
      {"peak_requested", plan.peak_requested},
      {"peak_allocated", plan.peak_allocated},
      {"peak_reserved", plan.peak_reserved},
      {"prompt", memory_at(1)},
      {"token", memory_at(3)},
      {"peak", {{"bytes", plan.peak.allocated}, {"layer", plan.peak.layer}, {"op", plan.peak.op}}},
      {"by_category", by_category_of(plan.peak.live.by_category)},
      {"by_layer", by_layer_of(plan.peak.live.by_layer)},
      {"top", top_of(plan.peak.live.top)},
      {"longest_text", findings.longest_text > 0 ? Json(findings.longest_text) : Json(nullptr)},
      {"longest_text_that_fits", findings.longest_that_fits ? Json(*findings.longest_that_fits) : Json(nullptr)},
      {"half", std::move(half)},
      {"outside_allocator", outside_allocator_of(findings.outside_allocator)},
      {"process", process_memory_json(findings.process, plan.peak_touched)},
      {"notes", findings.notes},
  });
}

}  // namespace trainer
