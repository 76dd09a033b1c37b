#include "cuda/ops/attention_call.h"

#include <algorithm>

#include "cuda/ops/attention_sizes.h"

namespace trainer::cuda {

std::optional<AttentionCall> attention_call(const Op& op, bool deterministic) {
  const bool is_forward = op.kind == OpKind::attention;
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  const DType type = op.inputs[0].dtype;
  const AttentionSizes sizes = attention_sizes(op);
  // Rows then start at multiples of 16 bytes.
  const bool is_aligned = sizes.width % 8 == 0 && sizes.width <= 128;
  if ((type != DType::f16 && type != DType::bf16) || !is_aligned || sizes.rotates || sizes.drops || sizes.window > 0 ||
      attributes.has_spans || (!is_forward && deterministic))
    return std::nullopt;
  return AttentionCall{.direction = is_forward ? AttentionDirection::forward : AttentionDirection::backward,
                       .type = type,
                       .samples = sizes.samples,
                       .queries = sizes.queries,
                       .keys = sizes.keys,
                       .heads = sizes.heads,
                       .kv_heads = sizes.kv_heads,
                       .width = sizes.width,
                       .query_features = sizes.query_features,
                       .key_features = sizes.key_features,
                       .causal = sizes.causal,
                       .workspace_limit = is_forward ? std::min(attributes.workspace_limit, most_forward_scratch)
                                                     : attributes.workspace_limit};
}

}  // namespace trainer::cuda
