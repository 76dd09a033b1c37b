#pragma once

#include "cuda/library/rank_link.h"
#include "cuda/ops/kernels.h"
#include "engine/errors.h"
#include "engine/rank_layout.h"

namespace trainer::cuda {

/// What a kernel of an op that a group of ranks runs reaches the others by.
inline RankLink& link_of(const CudaContext& context, const RankGroup& ranks) {
  require_internal(context.ranks != nullptr && ranks == RankGroup{context.ranks->size()}, "ranks reach one another");
  return *context.ranks;
}

}  // namespace trainer::cuda
