#pragma once

#include "cuda/kernels/attention.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// Of attention and its backward op.
AttentionSizes attention_sizes(const Op& op);
/// Of cached attention: `keys` are those of a cache.
AttentionSizes cached_attention_sizes(const Op& op);

}  // namespace trainer::cuda
