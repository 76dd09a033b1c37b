#include "engine/report/logging/live_scalars.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "engine/report/run/metrics_text.h"

namespace trainer {
namespace {

std::string_view term_tag(int term, bool is_validation) {
  static const auto all = [] {
    std::array<std::array<std::string, most_loss_terms>, 2> tags;
    for (int i = 0; i < most_loss_terms; ++i) {
      tags[0][static_cast<std::size_t>(i)] = fmt::format("loss_terms/train_{}", i + 1);
      tags[1][static_cast<std::size_t>(i)] = fmt::format("loss_terms/validation_{}", i + 1);
    }
    return tags;
  }();
  return all[is_validation ? 1 : 0][static_cast<std::size_t>(term)];
}

}  // namespace

void LiveScalars::add_terms(const LossTerms& terms, bool is_validation) {
  for (int term = 0; term < terms.count; ++term)
    add(term_tag(term, is_validation), terms.values[static_cast<std::size_t>(term)]);
}

void LiveScalars::add_classes(std::string_view group, const std::vector<double>& values) {
  if (values.size() > most_told_classes) return;
  for (std::size_t c = 0; c < values.size(); ++c) {
    if (std::isnan(values[c])) continue;  // does not occur
    add(class_tags_.emplace_back(fmt::format("{}/validation_{}", group, c)), values[c]);
  }
}

const std::vector<LiveScalar>& LiveScalars::of(const StepEvent& event) {
  scalars_.clear();
  add("loss/train", event.loss);
  add_terms(event.terms, false);
  add("optimizer/learning_rate", event.learning_rate);
  if (event.loss_scale) {
    add("optimizer/loss_scale", *event.loss_scale);
    add("optimizer/skipped", event.skipped ? 1.0 : 0.0);
  }
  add("progress/epoch", event.epoch);
  add("speed/samples_per_second", per_second(event.samples, event.seconds));
  add("speed/step_seconds", event.seconds);
  add("speed/data_seconds", event.data_seconds);
  if (event.tokens) {
    add("progress/tokens_seen", event.tokens->seen);
    add("speed/tokens_per_second", per_second(event.tokens->trained, event.seconds));
    if (event.tokens->mfu) add("speed/mfu", *event.tokens->mfu);
  }
  const StepMemory& memory = event.memory.step;
  add("memory/requested", memory.requested);
  add("memory/peak_requested", memory.peak_requested);
  add("memory/allocated", memory.allocated);
  add("memory/peak_allocated", memory.peak_allocated);
  add("memory/reserved", memory.reserved);
  add("memory/peak_reserved", memory.peak_reserved);
  add("memory/device_used", event.memory.device_used);
  add("memory/alloc_retries", event.memory.num_alloc_retries);
  return scalars_;
}

const std::vector<LiveScalar>& LiveScalars::of(const EvalEvent& event) {
  scalars_.clear();
  class_tags_.clear();
  add("loss/validation", event.loss);
  add_terms(event.terms, true);
  if (event.accuracy) add("accuracy/validation", *event.accuracy);
  if (event.top5) add("accuracy/validation_top5", *event.top5);
  const CountedMetrics& counted = event.counted;
  if (counted.mean_iou) add("mean_iou/validation", *counted.mean_iou);
  if (counted.dice) add("dice/validation", *counted.dice);
  if (counted.mae) add("mae/validation", *counted.mae);
  if (counted.r2) add("r2/validation", *counted.r2);
  if (counted.perplexity) add("perplexity/validation", *counted.perplexity);
  if (counted.bits_per_byte) add("bits_per_byte/validation", *counted.bits_per_byte);
  add_classes("class_iou", counted.class_iou);
  add_classes("class_dice", counted.class_dice);
  add("speed/validation_samples_per_second", per_second(event.samples, event.seconds));
  add("memory/validation_peak_reserved", event.memory.step.peak_reserved);
  return scalars_;
}

}  // namespace trainer
