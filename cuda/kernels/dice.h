#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// As engine/ops/dice.h: rows of channels; targets are a class a row, or numbers as the logits.
struct DiceTask {
  const float* logits = nullptr;
  const void* targets = nullptr;
  std::int64_t rows = 0, channels = 0, batch = 0;
  bool has_classes = true;
  bool is_softmax = true;  ///< probabilities, over the channels; else each channel's sigmoid
  std::int32_t ignored = -100;
  double smooth = 1e-5;
  int term = 0;  ///< of the loss
};

/// How threads cover the rows and channels: a block has `rows_per_part` rows and `class_lanes` channels. Depends on the
/// shape alone.
struct DiceParts {
  int class_lanes = 1;
  std::int64_t rows_per_part = 1, num_parts = 1;
};
inline constexpr int dice_threads = 256;
constexpr DiceParts dice_parts(std::int64_t rows, std::int64_t channels) {
  DiceParts parts;
  while (parts.class_lanes < 32 && parts.class_lanes < channels) parts.class_lanes *= 2;
  constexpr std::int64_t least_rows = 1024, most_parts = 512;
  parts.rows_per_part = std::max(least_rows, (rows + most_parts - 1) / most_parts);
  parts.num_parts = std::max<std::int64_t>(1, (rows + parts.rows_per_part - 1) / parts.rows_per_part);
  return parts;
}

/// The sums of each part, and of a softmax the shift and factor of each row.
constexpr std::int64_t dice_sums_workspace_bytes(std::int64_t rows, std::int64_t channels, bool is_softmax) {
  return dice_parts(rows, channels).num_parts * channels * 3 * 8 + (is_softmax ? rows * 2 * 4 : 0);
}
/// Two numbers a class.
constexpr std::int64_t dice_backward_workspace_bytes(std::int64_t channels) { return channels * 2 * 4; }

/// Writes the sums f64 (channels, 3), of a class in an order that depends on the shape alone. Bytes: the logits once,
/// of a softmax twice, and the targets. FLOPs: 7 an element.
void dice_sums(const DiceTask& task, double* sums, void* workspace, Stream stream);

/// Adds the loss that the sums make to the statistics of the term. Bytes: the sums.
void dice_loss(const DiceTask& task, const double* sums, double* statistics, Stream stream);

/// The gradient, times batch · StepScalars::gradient_scale_of the term; `gradients` may be the logits. Bytes: the
/// logits once, then from the cache, and written once. FLOPs: 9 an element.
void dice_backward(const DiceTask& task, const double* sums, const StepScalars* scalars, float* gradients,
                   void* workspace, Stream stream);

}  // namespace trainer::cuda
