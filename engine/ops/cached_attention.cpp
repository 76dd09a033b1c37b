#include "engine/ops/cached_attention.h"

#include <algorithm>

#include "engine/ops/elementwise.h"

namespace trainer {

TensorType attention_cache_type(const Op& attention, std::int64_t length) {
  const AttentionShape shape = attention_shape(attention);
  return {attention.inputs[0].dtype, {shape.samples, length, shape.kv_heads * shape.width}};
}

Op cached_attention_op(const Op& attention, std::int64_t length) {
  const auto& attributes = attributes_of<AttentionAttributes>(attention);
  require_internal(attributes.causal && attributes.p == 0 && !attributes.has_spans,
                   "keys are kept for what sees those before it, all of them");
  const AttentionShape shape = attention_shape(attention);
  const TensorType cache = attention_cache_type(attention, length);
  Op op{OpKind::cached_attention, attributes, attention.inputs, {attention.outputs[0]}};
  op.inputs.insert(op.inputs.end(), {{DType::i32, {shape.samples, shape.queries}}, cache, cache});
  return op;
}

int num_attended(const Op& cached_attention) { return static_cast<int>(cached_attention.inputs.size()) - 3; }

AttentionShape cached_attention_shape(const Op& cached_attention) {
  const auto& attributes = attributes_of<AttentionAttributes>(cached_attention);
  const Shape &cache = cached_attention.inputs.back().shape, &y = cached_attention.outputs[0].shape;
  const std::int64_t width = cache[2] / attributes.kv_heads;
  return {.samples = cache[0],
          .queries = y.num_elements() / (y[0] * y[-1]),
          .keys = cache[1],
          .heads = attributes.heads,
          .kv_heads = attributes.kv_heads,
          .width = width};
}

namespace {

/// As if every token saw all positions: where they stand is not known.
std::int64_t cached_attention_flops(const Op& op) {
  const AttentionShape shape = cached_attention_shape(op);
  const std::int64_t window = attributes_of<AttentionAttributes>(op).window;
  const std::int64_t seen = window > 0 ? std::min(window, shape.keys) : shape.keys;
  return flops_product(flops_product(shape.samples, shape.heads, shape.queries), 4 * shape.width, seen);
}

bool changes_caches(const Op& op, int position) { return position > num_attended(op); }

}  // namespace

const OpDefinition cached_attention_definition = {.flops = cached_attention_flops, .modifies = changes_caches};

}  // namespace trainer
