#pragma once

#include <cstdint>

#include "engine/ops/attention.h"

namespace trainer {

// Note [Cached attention]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A text that is written token by token needs, of the tokens before, their keys and values alone: these are kept, so
// that a new token costs one row of every product, and one pass over the keys. Where a token stands is an operand, not
// a shape: one op serves every token of a text. Keys are kept rotated by their positions.

/// Attention of new tokens to themselves and to those before them, as AttentionAttributes say, causal and without
/// dropout. Token t of sample n has position positions[n, t]; its key and value are written there, those of all tokens
/// first, and then it sees the positions up to its own. What has a position outside [0, length) is no token: nothing is
/// written for it, and its y is 0.
/// inputs: q, k, v as of attention, packed or three, of (samples, tokens, …); positions i32 (samples, tokens); keys
/// [changed], values [changed], each (samples, length, kv_heads · width), of q's type; outputs: y (samples, tokens,
/// heads · width).
Op cached_attention_op(const Op& attention, std::int64_t length);

/// Of the operands in front of the positions: 1 where they are packed, else 3.
int num_attended(const Op& cached_attention);
/// `keys` is the length of the caches.
AttentionShape cached_attention_shape(const Op& cached_attention);
/// Of keys, or of values.
TensorType attention_cache_type(const Op& attention, std::int64_t length);

}  // namespace trainer
