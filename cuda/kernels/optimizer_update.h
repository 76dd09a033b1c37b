#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"
#include "engine/dtype.h"
#include "engine/ops/optimizer_update.h"

namespace trainer::cuda {

/// What all tensors of an update share, in device memory.
struct UpdateOperands {
  const double* statistics = nullptr;      ///< where its loss_sum is not finite nothing changes
  const float* factor = nullptr;           ///< of gradient_factor; null: gradients are taken as they are
  const StepScalars* scalars = nullptr;    ///< learning rate, and the number of the update
};

/// The numbers of SgdUpdateAttributes and AdamUpdateAttributes.
struct SgdRule {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
struct AdamRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
};

struct SgdTensor {
  void* weight = nullptr;          ///< modified
  const void* gradient = nullptr;  ///< of the weight's type
  float* momentum = nullptr;       ///< modified; not read where the rule has none
  std::int64_t count = 0;
};
struct AdamTensor {
  void* weight = nullptr;          ///< modified
  const void* gradient = nullptr;  ///< of the weight's type
  float* first_moment = nullptr;   ///< modified
  float* second_moment = nullptr;  ///< modified
  std::int64_t count = 0;
};

/// One update of all tensors, weights and gradients of `type`, by the formulas of engine/ops/optimizer_update.h: the
/// scalars in f64, once a block, rounded to f32 where they meet a tensor. One launch for up to 640 tensors.
/// Bytes: weight and state read and written once, the gradient read once (Adam in f32: 28 an element; SGD 12, with
/// momentum 20). FLOPs: 4 (SGD), 6 (momentum), 13 (Adam) an element.
void sgd_update(DType type, const UpdateOperands& operands, std::span<const SgdTensor> tensors,
                const SgdRule& rule, Stream stream);
void adam_update(DType type, const UpdateOperands& operands, std::span<const AdamTensor> tensors,
                 const AdamRule& rule, Stream stream);

}  // namespace trainer::cuda
