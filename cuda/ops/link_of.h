#pragma once

#include "cuda/library/group_links.h"
#include "cuda/ops/kernels.h"
#include "engine/errors.h"
#include "engine/rank_layout.h"

namespace trainer::cuda {

/// What a kernel of an op that a group of ranks runs reaches the others by.
inline RankLink& link_of(const CudaContext& context, const RankGroup& ranks) {
  require_internal(context.links != nullptr, "ranks reach one another");
  return context.links->among(ranks);
}

/// What a kernel reaches single ranks by, each by its number.
inline RankLink& link_to_all(const CudaContext& context) {
  require_internal(context.links != nullptr, "ranks reach one another");
  return context.links->all();
}

}  // namespace trainer::cuda
