#include "engine/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/ops/elementwise.h"

namespace trainer {
namespace {

void require_positions(const TensorType& x, const char* what) {
  if (x.shape.rank() == 3 || x.shape.rank() == 4) return;
  throw ShapeError(
      fmt::format("attention takes (batch, positions, features) or images; its {} is {}", what, x.shape.to_string()));
}

std::int64_t num_positions(const Shape& shape) { return shape.num_elements() / (shape[0] * shape[-1]); }

/// The width of a head in `features` of `num_heads`.
std::int64_t head_width(std::int64_t features, std::int64_t num_heads, const char* what, const std::string& of_heads) {
  if (features % num_heads == 0) return features / num_heads;
  throw ShapeError(fmt::format("the {} features of attention's {} are not {} of one width: no multiple of {}", features,
                               what, of_heads, num_heads));
}

std::string heads_text(std::int64_t count) { return fmt::format("{} head{}", count, count == 1 ? "" : "s"); }

void check_heads(std::int64_t width, const AttentionAttributes& attributes) {
  if (width > most_head_width)
    throw ShapeError(fmt::format("attention takes heads of up to {} features; these have {}", most_head_width, width));
  if (attributes.rotary_base > 0 && width % 2 != 0)
    throw ShapeError(fmt::format("rotary positions take heads of an even number of features; these have {}", width));
}

Op make_attention_op(std::vector<TensorType> inputs, const TensorType& y, const AttentionAttributes& attributes) {
  const TensorType lse{DType::f32, {y.shape[0], attributes.heads, num_positions(y.shape)}};
  Op op{OpKind::attention, attributes, std::move(inputs), {y, lse}};
  std::get<AttentionAttributes>(op.attributes).has_spans = false;
  return op;
}

}  // namespace

Op attention_op(const TensorType& packed, const AttentionAttributes& attributes) {
  require_positions(packed, "input");
  require_internal(attributes.heads % attributes.kv_heads == 0, "key heads divide query heads");
  const std::int64_t width = head_width(
      packed.shape[-1], attributes.heads + 2 * attributes.kv_heads, "input",
      fmt::format("{0} of queries, {1} of keys and {1} of values", heads_text(attributes.heads), attributes.kv_heads));
  check_heads(width, attributes);
  TensorType y = packed;
  y.shape[-1] = attributes.heads * width;
  return make_attention_op({packed}, y, attributes);
}

Op attention_op(const TensorType& q, const TensorType& k, const TensorType& v, const AttentionAttributes& attributes) {
  require_positions(q, "queries' input");
  require_positions(k, "keys' input");
  require_internal(attributes.heads % attributes.kv_heads == 0, "key heads divide query heads");
  const std::int64_t width = head_width(q.shape[-1], attributes.heads, "queries", heads_text(attributes.heads));
  if (k.shape[-1] != attributes.kv_heads * width)
    throw ShapeError(fmt::format("attention's keys need {} features, {} of {} as the queries', and have {}",
                                 attributes.kv_heads * width, heads_text(attributes.kv_heads), width, k.shape[-1]));
  if (v.shape != k.shape)
    throw ShapeError(fmt::format("attention's keys are {} and its values {}; they must be alike", k.shape.to_string(),
                                 v.shape.to_string()));
  if (k.shape[0] != q.shape[0])
    throw ShapeError(fmt::format("attention's queries are {} and its keys {}; they must be of as many samples",
                                 q.shape.to_string(), k.shape.to_string()));
  if (attributes.causal && num_positions(k.shape) != num_positions(q.shape))
    throw ShapeError(fmt::format("causal attention needs as many keys as queries; there are {} queries and {} keys",
                                 num_positions(q.shape), num_positions(k.shape)));
  check_heads(width, attributes);
  return make_attention_op({q, k, v}, q, attributes);
}

Op attention_within_spans_op(const Op& attention, const TensorType& spans) {
  const AttentionShape shape = attention_shape(attention);
  if (shape.queries != shape.keys || spans.shape != Shape{shape.samples, shape.queries, 2})
    throw ShapeError(
        fmt::format("attention within documents needs the queries and keys of a network's tokens; there are {} queries "
                    "and {} keys of {} samples, and {} tokens of {}",
                    shape.queries, shape.keys, shape.samples, spans.shape[1], spans.shape[0]));
  Op op = attention;
  std::get<AttentionAttributes>(op.attributes).has_spans = true;
  op.inputs.push_back(spans);
  return op;
}

Op attention_backward_op(const Op& attention) {
  Op op{OpKind::attention_backward, attention.attributes, {attention.outputs[0]}, attention.inputs};
  op.outputs.resize(static_cast<std::size_t>(num_attended_operands(attention)));
  op.inputs.insert(op.inputs.end(), attention.inputs.begin(), attention.inputs.end());
  op.inputs.insert(op.inputs.end(), attention.outputs.begin(), attention.outputs.end());
  return op;
}

int num_attended_operands(const Op& op) {
  const int others =
      (op.kind == OpKind::attention ? 0 : 3) + (attributes_of<AttentionAttributes>(op).has_spans ? 1 : 0);
  return static_cast<int>(op.inputs.size()) - others;
}

int spans_position(const Op& op) {
  if (!attributes_of<AttentionAttributes>(op).has_spans) return -1;
  return num_attended_operands(op) + (op.kind == OpKind::attention ? 0 : 1);
}

bool is_packed_attention(const Op& op) { return num_attended_operands(op) == 1; }

AttentionShape attention_shape(const Op& op) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  const std::size_t first = op.kind == OpKind::attention ? 0 : 1;
  const Shape& q = op.inputs[first].shape;
  const bool packed = is_packed_attention(op);
  const std::int64_t heads_of_q = attributes.heads + (packed ? 2 * attributes.kv_heads : 0);
  return {.samples = q[0],
          .queries = num_positions(q),
          .keys = packed ? num_positions(q) : num_positions(op.inputs[first + 1].shape),
          .heads = attributes.heads,
          .kv_heads = attributes.kv_heads,
          .width = q[-1] / heads_of_q,
          .all_heads = attributes.all_heads > 0 ? attributes.all_heads : attributes.heads,
          .first_head = attributes.first_head};
}

float score_scale(std::int64_t width) { return static_cast<float>(1 / std::sqrt(static_cast<double>(width))); }

std::vector<float> rotary_frequencies(const AttentionAttributes& attributes, std::int64_t width) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
    frequencies.push_back(static_cast<float>(attributes.rotary_stretch(std::pow(attributes.rotary_base, exponent))));
  }
  return frequencies;
}

std::int64_t visible_pairs(const AttentionShape& shape, const AttentionAttributes& attributes) {
  if (!attributes.causal) return flops_product(shape.queries, shape.keys, 1);
  const std::int64_t most = attributes.window > 0 ? std::min(attributes.window, shape.keys) : shape.keys;
  // The first `most` queries see 1, 2, …, the others `most` each.
  return flops_product(most, most + 1, 1) / 2 + flops_product(shape.queries - most, most, 1);
}

namespace {

void differentiate_attention(GradientScope& scope) {
  std::vector<Operand> inputs = {scope.output_gradient()};
  const auto num_inputs = static_cast<int>(scope.op().inputs.size());
  const int num_attended = num_attended_operands(scope.op());
  for (int i = 0; i < num_inputs; ++i) inputs.push_back(scope.input(i));
  inputs.push_back(scope.output(0));
  inputs.push_back(scope.output(1));
  const auto outputs = scope.emit(attention_backward_op(scope.op()), std::move(inputs));
  for (int i = 0; i < num_attended; ++i)
    if (scope.needs_gradient(i)) scope.set_gradient(i, outputs[static_cast<std::size_t>(i)]);
}

/// Of `products` of a width for each visible pair; softmax counts for nothing beside them.
template <std::int64_t products>
std::int64_t attention_flops(const Op& op) {
  const AttentionShape shape = attention_shape(op);
  const std::int64_t pairs = visible_pairs(shape, attributes_of<AttentionAttributes>(op));
  return flops_product(flops_product(shape.samples, shape.heads, pairs), 2 * products, shape.width);
}

}  // namespace

const OpDefinition attention_definition = {.flops = attention_flops<2>,
                                           .differentiate = differentiate_attention,
                                           .precision = Precision::product_to_first,
                                           .work = Work::product,
                                           .takes_scratch = true};
const OpDefinition attention_backward_definition = {
    .flops = attention_flops<5>, .work = Work::product, .takes_scratch = true};

}  // namespace trainer
