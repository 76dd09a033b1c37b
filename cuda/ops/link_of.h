#pragma once

#include <cstdint>

#include "cuda/library/rank_link.h"
#include "cuda/ops/kernels.h"
#include "engine/errors.h"

namespace trainer::cuda {

/// What a kernel of an op that so many ranks run reaches the others by.
inline RankLink& link_of(const CudaContext& context, std::int64_t num_ranks) {
  require_internal(context.ranks != nullptr && context.ranks->size() == num_ranks, "ranks reach one another");
  return *context.ranks;
}

}  // namespace trainer::cuda
