#pragma once

#include "cuda/kernels/batchnorm2d.h"
#include "cuda/kernels/groupnorm.h"
#include "cuda/kernels/layernorm.h"
#include "cuda/kernels/prelu.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// Of a normalisation, prelu or their backward op: all dimensions but the last are its rows.
inline BatchNorm2dShape batchnorm2d_shape(const Op& op) {
  const TensorType& x = op.inputs[0];
  return {x.num_elements() / x.shape[-1], x.shape[-1]};
}
inline LayerNormShape layernorm_shape(const Op& op) {
  const TensorType& x = op.inputs[0];
  return {x.num_elements() / x.shape[-1], x.shape[-1]};
}
inline PreluShape prelu_shape(const Op& op) {
  const TensorType &x = op.inputs[0], &weight = op.inputs.back();
  return {x.num_elements() / x.shape[-1], x.shape[-1], weight.num_elements() == 1};
}

/// Its first dimension is the samples, those between it and the channels are its rows.
inline GroupNormShape groupnorm_shape(const Op& op) {
  const TensorType& x = op.inputs[0];
  const std::int64_t samples = x.shape[0], channels = x.shape[-1];
  return {samples, x.num_elements() / (samples * channels), channels, attributes_of<GroupNormAttributes>(op).groups};
}

}  // namespace trainer::cuda
