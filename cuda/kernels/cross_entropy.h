#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cuda/kernels/loss_parts.h"
#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"
#include "engine/dtype.h"
#include "engine/ops/mixed_sample.h"

namespace trainer::cuda {

struct CrossEntropyShape {
  std::int64_t samples = 0, classes = 0;
};

/// How threads cover the rows: `lanes` threads have one, a block `rows_at_once`, and its part of the batch is
/// `rows_per_part`. Depends on the shape alone, so that the bits do not depend on the device.
struct CrossEntropyTeams {
  int lanes = 1, rows_at_once = 1;
  std::int64_t rows_per_part = 1, num_parts = 1;
};

inline constexpr int cross_entropy_threads = 256;

/// Up to 1024 classes a group of lanes within a warp has a row, some four classes each; above, a block has one. At most
/// about a thousand blocks; a small batch of few classes is one, which spares the second launch.
constexpr CrossEntropyTeams cross_entropy_teams(const CrossEntropyShape& shape) {
  CrossEntropyTeams teams;
  if (shape.classes > 1024) {
    teams.lanes = cross_entropy_threads;
  } else {
    while (teams.lanes < 32 && 4 * teams.lanes < shape.classes) teams.lanes *= 2;
  }
  teams.rows_at_once = cross_entropy_threads / teams.lanes;
  constexpr std::int64_t most_parts = 1024;
  const std::int64_t passes = shape.classes <= 128 ? 2 : 1;
  const std::int64_t rows = std::max(passes * teams.rows_at_once, (shape.samples + most_parts - 1) / most_parts);
  teams.rows_per_part = (rows + teams.rows_at_once - 1) / teams.rows_at_once * teams.rows_at_once;
  teams.num_parts = std::max<std::int64_t>(1, (shape.samples + teams.rows_per_part - 1) / teams.rows_per_part);
  return teams;
}

/// A LossPart for each part of the batch where there are several, and the class weights.
constexpr std::int64_t cross_entropy_workspace_bytes(const CrossEntropyShape& shape, bool adds_statistics,
                                                     bool has_class_weights) {
  const std::int64_t num_parts = cross_entropy_teams(shape).num_parts;
  const std::int64_t parts =
      adds_statistics && num_parts > 1 ? num_parts * static_cast<std::int64_t>(sizeof(LossPart)) : 0;
  return parts + (has_class_weights ? 4 * shape.classes : 0);
}

struct CrossEntropyOperands {
  const void* logits = nullptr;  ///< (samples, classes)
  const std::int32_t* targets = nullptr;
  double* statistics = nullptr;          ///< added to; null: not wanted
  const MixedSample* mixing = nullptr;   ///< null: each sample has its own target alone
  void* gradients = nullptr;             ///< as logits, and may be the logits; null: not wanted
  const StepScalars* scalars = nullptr;  ///< in device memory
  void* workspace = nullptr;
  int term = 0;  ///< of the loss, whose statistics and factor are meant
};
struct CrossEntropyOptions {
  double label_smoothing = 0;
  std::span<const float> class_weights{};  ///< in host memory, one a class; empty: 1 each
  std::int32_t ignore_index = -100;        ///< a target without loss, weight, counts and gradient
};

/// Softmax cross-entropy (engine/ops/cross_entropy.h) of `type` logits: its statistics, its gradient times
/// StepScalars::gradient_scale_of the term, or both in one pass. A target that is no class and not ignored is not
/// looked up: it makes the loss and its row of gradients NaN. Class weights are handed to the device with the launches,
/// one more for each thousand: nothing else need be kept there. Bytes: the logits once for the statistics; for
/// gradients a second time, from the cache where a block's rows fit, and written once. FLOPs: 6 an element, an
/// exponential counting one.
void cross_entropy(DType type, const CrossEntropyOperands& operands, const CrossEntropyShape& shape,
                   const CrossEntropyOptions& options, Stream stream);

}  // namespace trainer::cuda
