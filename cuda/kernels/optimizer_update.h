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
  /// Where its loss_sum is not finite nothing changes; else num_counted becomes NaN where a new weight is not.
  double* statistics = nullptr;
  const float* factor = nullptr;       ///< of gradient_factor; null: gradients are taken as they are
  const double* loss_scale = nullptr;  ///< null: every update was made
  const StepScalars* scalars = nullptr;
};

/// The numbers of SgdUpdateAttributes and AdamUpdateAttributes.
struct SgdRule {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  UpdatePace pace = {};
};
struct AdamRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  UpdatePace pace = {};
};

/// The types of an update's tensors.
struct UpdateTypes {
  bool rounds_weights = false;  ///< weights are bf16 and rounded at random, else f32
  DType gradients = DType::f32;
  DType copies = DType::f32;  ///< f32: there are none
  bool eight_bit = false;     ///< Adam's moments are those of Note [8-bit moments]

  bool are_all_f32() const { return !rounds_weights && !eight_bit && gradients == DType::f32 && copies == DType::f32; }
};

struct UpdateTensor {
  void* weight = nullptr;  ///< modified
  const void* gradient = nullptr;
  void* copy = nullptr;                  ///< modified
  void* states[2] = {nullptr, nullptr};  ///< modified: SGD's momentum, Adam's moments, 8-bit ones aligned to 4 bytes
  std::int64_t count = 0;
  std::uint32_t random_stream = 0;
};

/// One update of all tensors, by the formulas of engine/ops/optimizer_update.h: the scalars in f64, once a block,
/// rounded to f32 where they meet a tensor. One launch for up to 640 tensors, of mixed types up to 512. Bytes: weight
/// and state read and written once, the gradient read once, the copy written once (Adam in f32: 28 an element, with
/// bf16 weights and gradients and 8-bit moments 10; SGD 12, with momentum 20). FLOPs: 4 (SGD), 6 (momentum), 13 (Adam)
/// an element.
void sgd_update(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                const SgdRule& rule, Stream stream);
void adam_update(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                 const AdamRule& rule, Stream stream);

}  // namespace trainer::cuda
