#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/cost_model.h"
#include "engine/train/measure/ceilings.h"
#include "engine/train/measure/step_timing.h"

namespace trainer {

/// What `trainer bench CONFIG` measured, as data.
struct BenchFindings {
  std::string experiment_name, config_path;
  std::string device_kind, device_name;
  std::int64_t batch_size = 0, num_micro_batches = 1;
  std::int64_t tokens_per_sample = 0;  ///< 0: samples are no tokens
  const Program* program = nullptr;
  StepTiming timing;
  StepTime predicted;
  MachineRates rates;
  Ceilings ceilings;

  std::int64_t samples_per_step() const { return batch_size * num_micro_batches; }
};

/// Calls of one layer or of one kind of op, summed over a step.
struct BenchRow {
  std::string name;  ///< "fc1 (linear)", "conv2d_backward_weight"
  double num_calls = 0;
  double forward = 0, backward = 0, recompute = 0, update = 0;  ///< seconds
  double flops = 0, num_bytes = 0;
  double predicted_seconds = 0;
  /// The least that the calls could take: each the longest of FLOPs, bytes and the time of the smallest call, at what
  /// the device reaches at best.
  double bound_seconds = 0;
  double bound_by_flops = 0, bound_by_bytes = 0, bound_by_calls = 0;  ///< of bound_seconds

  double seconds() const { return forward + backward + recompute + update; }
  /// "compute", "memory" or "launch": what most of the bound is due to.
  std::string bound_side() const;
};

/// By layer in the order of the network, what belongs to none (the update, the loss's sums) last.
std::vector<BenchRow> rows_by_layer(const BenchFindings& findings);
/// By kind of op and precision, the longest first.
std::vector<BenchRow> rows_by_kind(const BenchFindings& findings);

}  // namespace trainer
