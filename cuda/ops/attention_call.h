#pragma once

#include <optional>

#include "cuda/library/attention.h"
#include "engine/ops/op.h"

namespace trainer::cuda {

/// Forward attention is not given to an engine that needs more scratch than this: none that is known needs more than
/// 256 bytes.
inline constexpr std::int64_t most_forward_scratch = 1024;

/// What attention or its backward op asks of cuDNN; nothing where that cannot serve it, see Note [Attention by cuDNN]
/// in cuda/library/attention.h, or where the backward pass has to be `deterministic`.
std::optional<AttentionCall> attention_call(const Op& op, bool deterministic);

}  // namespace trainer::cuda
