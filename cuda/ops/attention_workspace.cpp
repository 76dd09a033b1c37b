#include <algorithm>
#include <array>

#include "cuda/ops/attention_call.h"
#include "cuda/ops/attention_sizes.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

AttentionSizes sizes_of_attention(const AttentionAttributes& attributes, const AttentionShape& shape, bool packed) {
  const std::int64_t of_q = shape.heads * shape.width, of_k = shape.kv_heads * shape.width;
  AttentionSizes sizes;
  sizes.samples = shape.samples;
  sizes.queries = shape.queries;
  sizes.keys = shape.keys;
  sizes.heads = static_cast<int>(shape.heads);
  sizes.kv_heads = static_cast<int>(shape.kv_heads);
  sizes.width = static_cast<int>(shape.width);
  sizes.query_features = packed ? of_q + 2 * of_k : of_q;
  sizes.key_features = packed ? of_q + 2 * of_k : of_k;
  sizes.window = attributes.window < shape.keys ? attributes.window : 0;
  sizes.causal = attributes.causal;
  sizes.rotates = attributes.rotary_base > 0;
  sizes.drops = attributes.p > 0;
  sizes.scale = score_scale(shape.width);
  if (sizes.rotates) {
    const std::vector<float> frequencies = rotary_frequencies(attributes, shape.width);
    std::copy(frequencies.begin(), frequencies.end(), sizes.rotary_frequencies);
  }
  const DropoutRule rule = dropout_rule(attributes.p);
  sizes.philox_stream = attributes.stream;
  sizes.all_heads = static_cast<int>(attributes.all_heads);
  sizes.first_head = static_cast<int>(attributes.first_head);
  sizes.threshold = rule.threshold;
  sizes.kept_scale = rule.scale;
  return sizes;
}

constexpr std::array attention_kinds = {OpKind::attention, OpKind::attention_backward};

/// What cuDNN needs where it serves the op, but no less than the own kernels, which run in it where cuDNN cannot.
std::int64_t attention_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  const AttentionSizes sizes = attention_sizes(op);
  const std::int64_t own =
      op.kind == OpKind::attention ? attention_rotation_bytes(sizes) : attention_backward_workspace_bytes(sizes);
  if (model.attentions == nullptr) return own;
  const std::optional<AttentionCall> call = attention_call(op, model.deterministic);
  return std::max(own, call ? model.attentions->workspace_bytes(*call).value_or(0) : 0);
}

}  // namespace

AttentionSizes attention_sizes(const Op& op) {
  return sizes_of_attention(attributes_of<AttentionAttributes>(op), attention_shape(op), is_packed_attention(op));
}

AttentionSizes cached_attention_sizes(const Op& op) {
  return sizes_of_attention(attributes_of<AttentionAttributes>(op), cached_attention_shape(op), num_attended(op) == 1);
}

const ScratchRule attention_scratch = {attention_kinds, attention_workspace_bytes};

}  // namespace trainer::cuda
