#pragma once

#include <cstdint>

#include "cuda/kernels/loss_parts.h"
#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"

namespace trainer::cuda {

/// Logits f32 (rows, classes) of the classes from `first_class` on, of `all_classes` that `ranks` ranks share.
struct ClassPartTask {
  std::int64_t rows = 0, classes = 0, first_class = 0, all_classes = 0;
  int ranks = 1, place = 0;
  std::int32_t ignored = -100;
  double smoothing = 0;
  const float* logits = nullptr;
  const std::int32_t* targets = nullptr;
};

inline constexpr int class_part_threads = 256;

/// Rows of a block of cross_entropy_of_parts, which is a thread's each; at most about a thousand blocks.
constexpr std::int64_t class_part_blocks(std::int64_t rows) {
  const std::int64_t blocks = (rows + class_part_threads - 1) / class_part_threads;
  return blocks < 1024 ? blocks : 1024;
}
/// A LossPart for each block where there are several.
constexpr std::int64_t class_part_workspace_bytes(std::int64_t rows) {
  const std::int64_t blocks = class_part_blocks(rows);
  return blocks > 1 ? blocks * static_cast<std::int64_t>(sizeof(LossPart)) : 0;
}

// The ops of engine/ops/class_parts.h. A target that is no class and not ignored makes the statistics of its row NaN,
// and so loss and gradients. Statistics are (rows, ranks, num_class_statistics).

/// A block a row. Bytes: the logits once, and a second time from the cache. FLOPs: 4 an element.
void class_statistics(const ClassPartTask& task, float* statistics, Stream stream);
/// A block a row. Bytes: the logits once. FLOPs: 1 an element.
void class_order(const ClassPartTask& task, const float* statistics, float* order, Stream stream);
/// Bytes: statistics and order once.
void cross_entropy_of_parts(const ClassPartTask& task, const float* statistics, const float* order,
                            double* loss_statistics, void* workspace, Stream stream);
/// A block a row. `gradients` may be the logits. Bytes: the logits once, read and written. FLOPs: 3 an element.
void cross_entropy_of_parts_backward(const ClassPartTask& task, const float* statistics, const StepScalars* scalars,
                                     float* gradients, Stream stream);

}  // namespace trainer::cuda
