#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/loss_parts.h"
#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// Numbers a block takes: 4096 and more, at most about a thousand blocks. Depends on the count alone.
struct NumericLossParts {
  std::int64_t part_elements = 4096, num_parts = 1;
};
constexpr NumericLossParts numeric_loss_parts(std::int64_t count) {
  constexpr std::int64_t least = 4096, most_parts = 1024;
  const std::int64_t share = (count + most_parts - 1) / most_parts;
  const std::int64_t part_elements = std::max<std::int64_t>(1, (share + least - 1) / least) * least;
  return {part_elements, std::max<std::int64_t>(1, (count + part_elements - 1) / part_elements)};
}

/// Of mse, bce_with_logits and smooth_l1.
constexpr std::int64_t numeric_loss_workspace_bytes(std::int64_t count) {
  const std::int64_t num_parts = numeric_loss_parts(count).num_parts;
  return num_parts == 1 ? 0 : num_parts * static_cast<std::int64_t>(sizeof(LossPart));
}

struct NumericLossOperands {
  const void* prediction = nullptr;
  const void* targets = nullptr;
  double* statistics = nullptr;  ///< added to
  void* workspace = nullptr;
  int term = 0;  ///< of the loss, whose statistics are meant
};
struct NumericLossGradientOperands {
  const void* prediction = nullptr;
  const void* targets = nullptr;
  void* gradients = nullptr;             ///< may be the prediction
  const StepScalars* scalars = nullptr;  ///< in device memory
  int term = 0;                          ///< of the loss, whose factor is meant
};

/// Losses over `count` numbers of `type`, targets too, as engine/ops/mse.h, bce_with_logits.h and smooth_l1.h have
/// them: a number's loss in f32, their sum in f64. Bytes: prediction and targets once. FLOPs: 3 an element (mse), 8
/// (bce), 5 (smooth_l1).
void mse_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream);
void bce_with_logits_forward(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream);
void smooth_l1_forward(DType type, double beta, const NumericLossOperands& operands, std::int64_t count, Stream stream);

/// Adds the sums of engine/ops/error_statistics.h to operands.statistics. Bytes: prediction and targets once. FLOPs: 7
/// an element. Its workspace is that of the losses.
void error_statistics(DType type, const NumericLossOperands& operands, std::int64_t count, Stream stream);

/// Their gradients times StepScalars::gradient_scale_of the term. Bytes: three tensors once. FLOPs: 3 an element (mse),
/// 6 (bce), 4 (smooth_l1).
void mse_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count, Stream stream);
void bce_with_logits_backward(DType type, const NumericLossGradientOperands& operands, std::int64_t count,
                              Stream stream);
void smooth_l1_backward(DType type, double beta, const NumericLossGradientOperands& operands, std::int64_t count,
                        Stream stream);

}  // namespace trainer::cuda
