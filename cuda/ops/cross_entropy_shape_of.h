#pragma once

#include "cuda/kernels/cross_entropy.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

inline CrossEntropyShape cross_entropy_shape_of(const Op& op) {
  return {op.inputs[1].num_elements(), op.inputs[0].shape[-1]};
}

}  // namespace trainer::cuda
