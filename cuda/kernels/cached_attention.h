#pragma once

#include <cstdint>

#include "cuda/kernels/attention.h"

namespace trainer::cuda {

/// Attention to keys and values that are kept: Note [Cached attention] in engine/ops/cached_attention.h.
struct CachedAttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;  ///< of new tokens, each from its first head on
  const std::int32_t* positions = nullptr;              ///< (samples, queries)
  void *keys = nullptr, *values = nullptr;              ///< (samples, keys, kv_heads · width)
};

/// Writes rows of the caches, then y (samples, queries, heads · width). Two launches. A block has one query of one
/// head, and its warps take turns at the keys: of one sequence there are as many blocks as heads, so long caches are
/// read by few of a device's processors. Bytes: the operands once, and for each query the keys and values that it sees
/// once for each of its heads, of which those that share them mostly come from the cache. FLOPs: 4 · width for each of
/// them.
void cached_attention(DType type, const CachedAttentionOperands& operands, void* y, const AttentionSizes& sizes,
                      Stream stream);

}  // namespace trainer::cuda
