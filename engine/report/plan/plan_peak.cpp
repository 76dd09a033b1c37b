#include "engine/report/plan/plan_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/bytes.h"
#include "engine/report/memory/memory_chart.h"
#include "engine/report/memory/memory_table.h"

namespace trainer {
namespace {

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string peak_place_text(const PlanPeak& peak) {
  std::string text = format_bytes(peak.allocated) + " allocated ";
  text += peak.step == 0 && peak.phase != Phase::eval ? "while loading"
                                                      : fmt::format("in step {}", format_count(peak.step));
  text += fmt::format(", {}, {}", name_of(peak.phase), peak.layer.empty() ? "(no layer)" : peak.layer);
  if (!peak.op.empty()) text += ", op " + peak.op;
  return text;
}

std::string op_clause(const PlanPeak& peak) {
  const PeakUses& uses = peak.uses;
  std::vector<std::string> parts;
  if (uses.read > 0) parts.push_back(fmt::format("reads {}", format_bytes(uses.read)));
  if (uses.written > 0) parts.push_back(fmt::format("writes {}", format_bytes(uses.written)));
  if (uses.workspace > 0) parts.push_back(fmt::format("works in {} of scratch", format_bytes(uses.workspace)));
  return peak.op.empty() || parts.empty() ? "." : fmt::format(", which {}.", listed(parts));
}

std::string kept_sentence(const PeakUses& uses) {
  if (uses.kept == 0) return "";
  constexpr std::size_t most_named = 3;
  const std::size_t num_layers = uses.kept_by_layer.size();
  std::vector<std::string> layers;
  for (std::size_t i = 0; i < std::min(num_layers, most_named); ++i)
    layers.push_back(
        fmt::format("{} ({})", uses.kept_by_layer[i].layer, format_bytes(uses.kept_by_layer[i].num_bytes)));
  std::string which = "of ";
  if (num_layers > most_named) which = fmt::format("of {} layers, the most of ", num_layers);
  return fmt::format(" {} is kept from the forward pass for the backward pass: {}{}.", format_bytes(uses.kept), which,
                     listed(layers));
}

std::string rest_sentence(const PeakUses& uses) {
  std::vector<std::string> parts;
  if (uses.recomputed > 0) parts.push_back(fmt::format("{} was computed again", format_bytes(uses.recomputed)));
  if (uses.waiting > 0) parts.push_back(fmt::format("{} waits for later ops", format_bytes(uses.waiting)));
  if (uses.gradients > 0) parts.push_back(fmt::format("{} is gradients of parameters", format_bytes(uses.gradients)));
  if (uses.standing > 0)
    parts.push_back(fmt::format("{} is there all the time (parameters, optimizer state)", format_bytes(uses.standing)));
  return parts.empty() ? "" : " " + listed(parts) + '.';
}

}  // namespace

std::string peak_explanation(const PlanPeak& peak) {
  return peak_place_text(peak) + op_clause(peak) + kept_sentence(peak.uses) + rest_sentence(peak.uses);
}

std::string peak_report(const PlanFindings& findings, const Style& style) {
  const PlanPeak& peak = findings.shown().peak;
  std::string text = heading(style, "Where the peak lies");
  text += "  " + wrap(peak_explanation(peak), static_cast<std::size_t>(style.width) - 2, "  ") + '\n';
  const std::string chart = memory_chart(
      peak.timeline, {.layer_labels = findings.layer_labels, .capacity = findings.plan.fits ? 0 : findings.capacity},
      style);
  if (!chart.empty()) {
    const std::string_view what = peak.phase == Phase::eval ? "The evaluation" : "The step";
    text += heading(style, peak.step == 0 && peak.phase != Phase::eval
                               ? "Loading, allocated from left to right"
                               : fmt::format("{} with the peak, allocated from left to right", what)) +
            chart;
  }
  text += heading(style, "Who holds it at the peak");
  text += category_table(peak.live.by_category, peak.allocated, style);
  text += '\n' + layer_table(peak.live.by_layer, peak.allocated, style);
  if (!peak.live.top.empty()) text += '\n' + buffer_table(peak.live.top, peak.allocated, style);
  return text;
}

}  // namespace trainer
