#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/train/events.h"

namespace trainer {

/// What is known of a run that goes on, as of its newest events.
struct LoggedRun {
  std::string name, device, device_name, version, stage = "train";
  std::int64_t capacity = 0, num_parameters = 0, num_planned_steps = 0;
  std::optional<StepEvent> step{};  ///< without its stage's name
  std::optional<EvalEvent> evaluation{};
  std::string status{};               ///< of the end event; empty: it goes on
  double step_time = 0;               ///< when `step` was told, in seconds since 1970
  std::int64_t last_checkpoint = -1;  ///< its step
  /// Of this process.
  std::int64_t num_steps = 0, num_samples = 0, num_tokens = 0, num_skipped = 0, num_evaluations = 0,
               num_checkpoints = 0, num_warnings = 0, num_adaptations = 0;
  double training_seconds = 0, data_seconds = 0;
};

/// In Prometheus' text exposition format 0.0.4: base units (seconds, bytes, ratios), `_total` for what only counts up,
/// and the labels run, stage, device and rank.
std::string prometheus_text(const LoggedRun& run);

/// The value of a label: UTF-8 with backslash, quote and newline escaped.
std::string prometheus_label(std::string_view text);

}  // namespace trainer
