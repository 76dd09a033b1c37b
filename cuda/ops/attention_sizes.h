#pragma once

#include "cuda/kernels/attention.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// Of attention and its backward op.
AttentionSizes attention_sizes(const Op& op);

}  // namespace trainer::cuda
