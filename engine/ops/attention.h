#pragma once

#include <cstdint>
#include <vector>

#include "engine/rotation.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Attention without scores]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The weights of attention are a matrix of queries by keys for each head, which no pass on any device holds: forward
// goes through blocks of keys and keeps the sum so far together with the largest score so far, by which it is scaled
// anew where a larger one comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022). What it leaves is one number for each query, the logarithm of the sum of its scores'
// exponentials, with which backward computes any block of weights again. Blocks without a visible key are not computed.

/// y = softmax(scale · q kᵀ) v for each head, with scale = 1 / √width of a head.
struct AttentionAttributes {
  std::int64_t heads = 1;     ///< of queries
  std::int64_t kv_heads = 1;  ///< of keys and values; divides `heads`: query head h reads head h / (heads / kv_heads)
  bool causal = false;        ///< query i sees keys 0 … i
  bool has_spans = false;     ///< and no others than the keys of its span, an operand
  std::int64_t window = 0;    ///< causal only: of those the last so many; 0: all
  /// Above 0: q and k are rotated by their positions first (Su et al., "RoFormer", 2021), feature i of a head with
  /// feature i + width / 2 by the angle position · base^(−2i / width), as Llama does.
  double rotary_base = 0;
  RotaryStretch rotary_stretch{};  ///< of those angles
  /// Dropout of weights: that of query i and key j, in head h of sample n, is kept where
  /// PhiloxStream{seed, stream, pass}.uniform(((n · heads + h) · keys + j) · (queries rounded up to 4) + i) ≥ p, with
  /// all heads, where other ranks have some of them.
  double p = 0;
  std::uint32_t stream = 0;  ///< as DropoutAttributes'
  /// Where other ranks have the other heads: of how many `heads` are those from first_head on. 0: there are no others.
  std::int64_t all_heads = 0, first_head = 0;
  std::int64_t workspace_limit = 0;  ///< a kernel that needs more scratch is not chosen: another serves
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};

/// Of one head; a kernel has shared memory for no more.
inline constexpr std::int64_t most_head_width = 256;

struct AttentionShape {
  std::int64_t samples = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0;
  std::int64_t width = 0;  ///< of a head

  std::int64_t all_heads = 0, first_head = 0;  ///< as AttentionAttributes has them, all_heads never 0

  std::int64_t group() const { return heads / kv_heads; }  ///< query heads that share one of keys and values
  /// Among all heads of all samples, of head `head` here.
  std::int64_t drawn_head(std::int64_t sample, std::int64_t head) const {
    return sample * all_heads + first_head + head;
  }
};

// Operands are of one type, f32 or 16 bit, but for the logarithms, which are f32. "q, k, v" is either one packed tensor
// (samples, positions, (heads + 2 · kv_heads) · width) of all query heads, then key heads, then value heads, or three:
// (samples, queries, heads · width), (samples, keys, kv_heads · width) and the same. Pixels of images are positions.

/// inputs: q, k, v; outputs: y (samples, queries, heads · width), lse (samples, heads, queries), the logarithms.
/// Throws ShapeError. Without spans, whatever the attributes say.
Op attention_op(const TensorType& packed, const AttentionAttributes& attributes);
Op attention_op(const TensorType& q, const TensorType& k, const TensorType& v, const AttentionAttributes& attributes);
/// The same with an input behind v: the first key that a query sees and the one behind the last, `spans` i32 (samples,
/// positions, 2). Spans divide the positions: all positions of a span have it. Throws ShapeError where there are not as
/// many queries as keys as spans.
Op attention_within_spans_op(const Op& attention, const TensorType& spans);
/// inputs: dy, q, k, v, spans where there are some, y, lse; outputs: dq, dk, dv, in one tensor where they are packed.
Op attention_backward_op(const Op& attention);

/// Of either op.
AttentionShape attention_shape(const Op& op);
bool is_packed_attention(const Op& op);
/// How many operands q, k and v are: 1 or 3.
int num_attended_operands(const Op& op);
/// Which input the spans are; -1: there are none.
int spans_position(const Op& op);
/// 1 / √width, which scores are multiplied by.
float score_scale(std::int64_t width);
/// Of the pairs of features of a head: base^(−2i / width), stretched, rounded to f32.
std::vector<float> rotary_frequencies(const AttentionAttributes& attributes, std::int64_t width);
/// Pairs of a query and a key that it sees, of one head; spans, which only data tell, may hide some of them.
std::int64_t visible_pairs(const AttentionShape& shape, const AttentionAttributes& attributes);

}  // namespace trainer
