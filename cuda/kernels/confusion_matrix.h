#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"

namespace trainer::cuda {

/// As engine/ops/confusion_matrix.h.
struct ConfusionTask {
  const float* logits = nullptr;
  const void* targets = nullptr;   ///< i32, one a row, or f32, one a logit
  std::int64_t* counts = nullptr;  ///< (num_classes, num_classes), added to
  std::int64_t rows = 0, channels = 0, num_classes = 0;
  bool has_classes = true;
  std::int32_t ignored = -100;
};

/// Adds what it counts. A target that is no class is not counted. Bytes: logits and targets once. FLOPs: 1 an element.
void confusion_matrix(const ConfusionTask& task, Stream stream);

}  // namespace trainer::cuda
