#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/device/step_scalars.h"
#include "engine/dtype.h"

namespace trainer::cuda {

// Note [Attention in tiles]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A block of threads has a tile of queries, or of keys, in shared memory as f32 and goes through tiles of the other:
// Note [Attention without scores] in engine/ops/attention.h. Forward keeps y of its queries in registers. Backward is
// two kernels, each of which computes the weights of its tiles again: one has a tile of queries and adds up dq over the
// keys, the other has a tile of keys and adds up dk and dv over the queries of all heads that share them. So no two
// blocks add to one number, sums have one order, and nothing of the size of the scores is stored: five products of
// FlashAttention's backward are seven. Tiles are 32 × 32 for heads of up to 64 features, 16 × 16 up to 128 and 8 × 8 up
// to 256, which is what 48 KiB hold of four tiles.
//
// All products are f32 multiply-adds. Operands of 16 bits go to tensor cores where Note [Attention in fragments] in
// attention_mma.h has kernels for them: this is for f32, for wider heads and for GPUs before 8.0.

struct AttentionSizes {
  std::int64_t samples = 0, queries = 0, keys = 0;
  int heads = 0, kv_heads = 0, width = 0;             ///< width of a head: at most 256
  std::int64_t query_features = 0, key_features = 0;  ///< from a position to the next of q, and of k and v
  std::int64_t window = 0;                            ///< causal only; 0: none
  bool causal = false, rotates = false, drops = false;
  float scale = 1;
  float rotary_frequencies[128] = {};              ///< where it rotates, of each pair of features
  std::uint32_t philox_stream = 0, threshold = 0;  ///< where it drops: kept are words >> 8 that reach the threshold
  float kept_scale = 1;                            ///< what a kept weight is multiplied by
  int all_heads = 0, first_head = 0;               ///< as AttentionAttributes has them
};

/// Bytes for cosines and sines of all positions, and behind them, in the backward pass, Σ dy · y of each query.
constexpr std::int64_t attention_rotation_bytes(const AttentionSizes& sizes) {
  if (!sizes.rotates) return 0;
  const std::int64_t bytes = std::max(sizes.queries, sizes.keys) * sizes.width * 4;
  return (bytes + 255) / 256 * 256;
}
constexpr std::int64_t attention_backward_workspace_bytes(const AttentionSizes& sizes) {
  return attention_rotation_bytes(sizes) + sizes.samples * sizes.heads * sizes.queries * 4;
}

/// q, k and v, each from its first head on; they may lie in one tensor.
struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const StepScalars* scalars = nullptr;  ///< in device memory; where it drops
  const std::int32_t* spans = nullptr;   ///< where there are some: of engine/ops/attention.h
  void* workspace = nullptr;
};

/// y (samples, queries, heads · width) and the logarithms lse (samples, heads, queries) of engine/ops/attention.h. One
/// launch, and one before it where it rotates. Bytes: q, y and lse once, k and v once for each tile of queries that
/// sees them. FLOPs: 4 · width for each pair of a tile that is computed, on tensor cores where takes_fragments() of
/// attention_mma.h, which has tiles of 128 queries, else as f32.
void attention_forward(DType type, const AttentionOperands& operands, void* y, float* lse, const AttentionSizes& sizes,
                       Stream stream);

struct AttentionGradients {
  const void *dy = nullptr, *y = nullptr;
  const float* lse = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;  ///< laid out as q, k and v
};

/// dq, dk and dv, always the same bits. Three launches, and one before them where it rotates. FLOPs: 14 · width for
/// each pair of a tile, on tensor cores or not as above.
void attention_backward(DType type, const AttentionOperands& operands, const AttentionGradients& gradients,
                        const AttentionSizes& sizes, Stream stream);

}  // namespace trainer::cuda
