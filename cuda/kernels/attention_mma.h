#pragma once
// Attention by tensor cores: Note [Attention in fragments].

#include <initializer_list>

#include "cuda/kernels/attention.h"

namespace trainer::cuda {

// Note [Attention in fragments]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The division into kernels and the formulas are those of Note [Attention in tiles] in attention.h. Tiles lie in shared
// memory in 16 bits, as they do in memory, their packs of 16 bytes swizzled; the products of a warp are fragments with
// sums in registers (Note [Products of a warp] in cuda/launch/tensor_cores.h), and a warp has rows of its own, so that
// the weights go from one product to the next within a thread: of a warp's product of rows by columns, the sums of two
// neighbours are the left operand of the next one. No two warps add to one number, and sums have one order.
//
// Forward (Dao, "FlashAttention-2", 2023): 128 queries, 32 of each warp, stay in shared memory; keys and values pass
// through one tile each, of 32. The values are copied ahead under the
// product of the scores, and the next keys under that of the values. Backward: each kernel keeps 64 rows of its own, 16
// of each warp, in shared memory (q and dy, or k and v), and the others pass through it in the same way. The key
// gradient's products have keys as rows, so no weights are transposed. Each holds 48 KiB at most, all that is static.
//
// Weights and scores' gradients are rounded to 16 bits for the products that take them, as FlashAttention's are, and so
// are q and k once they are rotated; scores, weights' sums and results are f32. A warp leaves out tiles that none of
// its queries sees, and asks which pairs are visible only at the border. Where heads are rotated, the second half of
// the features begins at the middle of the tile, so that a pair's two features are one lane's. Philox gives four
// queries' words at once, which lanes exchange: each lane computes one block for four of its pairs.

/// Whether the kernels below compute it: 16-bit types, heads of 8, 16, 24 … 128 features (rotated ones of 16, 32 …),
/// operands, and `others` beside them, whose rows start at multiples of 16 bytes, fewer than 2^30 positions, and
/// devices with tensor cores for them. A head is padded with zeros to 32, 64 or 128 features, which is what its
/// products cost.
bool takes_fragments(DType type, const AttentionOperands& operands, std::initializer_list<const void*> others,
                     const AttentionSizes& sizes);

/// As attention_forward where takes_fragments(); `rotations` (positions, width / 2) of cosine and sine, or null. One
/// launch.
void attention_forward_in_fragments(DType type, const AttentionOperands& operands, const float* rotations, void* y,
                                    float* lse, const AttentionSizes& sizes, Stream stream);

/// dq, dk and dv of attention_backward, given `d`, its Σ dy · y, (samples, heads, queries). Two launches.
void attention_backward_in_fragments(DType type, const AttentionOperands& operands, const AttentionGradients& gradients,
                                     const float* rotations, const float* d, const AttentionSizes& sizes,
                                     Stream stream);

}  // namespace trainer::cuda
