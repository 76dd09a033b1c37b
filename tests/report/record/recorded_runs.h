#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/report/record/run_record.h"

namespace trainer {

/// A run of 64 samples a step, each of which takes `seconds`, but for the first, which takes ten times as long.
inline RunRecord recorded_run(const std::string& config, const std::vector<double>& losses, double seconds = 0.5) {
  RunRecord record;
  record.path = "runs/a/events.jsonl";
  record.folder = "runs/a";
  record.config = Json::parse(config);
  record.start = Json::object();
  record.name = "digits";
  record.device_kind = "cpu";
  record.device_name = "a processor";
  record.trainer_version = "1.2.3";
  record.capacity = 64 << 20;
  record.parameters = 10;
  record.total_steps = static_cast<std::int64_t>(losses.size());
  record.steps_per_epoch = 4;
  record.num_starts = 1;
  record.first_steps = {1};
  record.stage_names = {"train"};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    RecordedStep step;
    step.step = static_cast<std::int64_t>(i) + 1;
    step.epoch = static_cast<std::int64_t>(i) / 4 + 1;
    step.loss = losses[i];
    step.learning_rate = 0.1;
    step.samples = 64;
    step.seconds = i == 0 ? 10 * seconds : seconds;
    step.samples_per_second = 64 / step.seconds;
    step.data_seconds = 0.1 * step.seconds;
    step.memory = {.requested = 1 << 20,
                   .allocated = 2 << 20,
                   .reserved = 10 << 20,
                   .peak_requested = 7 << 20,
                   .peak_allocated = 8 << 20,
                   .peak_reserved = 10 << 20,
                   .device_used = 20 << 20,
                   .device_total = 1 << 30,
                   .alloc_retries = 0};
    record.steps.push_back(step);
  }
  return record;
}

inline RecordedEvaluation recorded_evaluation(std::int64_t step, double loss, double accuracy) {
  RecordedEvaluation evaluation;
  evaluation.step = step;
  evaluation.epoch = 1;
  evaluation.loss = loss;
  evaluation.metrics = {{"accuracy", accuracy}};
  evaluation.samples = 10;
  evaluation.seconds = 0.25;
  return evaluation;
}

}  // namespace trainer
