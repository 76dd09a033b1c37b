#include "tests/op_cases/half_cases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tests/op_cases/case_selection.h"
#include "tests/op_cases/larger_cases.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

/// Which f32 operands of an op become 16 bit.
enum class Narrowed : std::uint8_t {
  none,
  all,                 ///< but sums that a gradient is added to
  all_but_logarithms,  ///< but what attention keeps of its scores
  activations          ///< those of the first input's shape, and what it is placed in
};

// No default: the compiler reports an op that is missing here.
Narrowed narrowed_operands(OpKind kind) {
  switch (kind) {
    case OpKind::normalize_pixels:
    case OpKind::linear:
    case OpKind::linear_backward_input:
    case OpKind::linear_backward_weight:
    case OpKind::conv_transpose2d:
    case OpKind::conv_transpose2d_backward_weight:
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::conv2d_backward_weight:
    case OpKind::activation:
    case OpKind::activation_backward:
    case OpKind::maxpool2d:
    case OpKind::maxpool2d_backward:
    case OpKind::avgpool2d:
    case OpKind::avgpool2d_backward:
    case OpKind::adaptive_avgpool2d:
    case OpKind::adaptive_avgpool2d_backward:
    case OpKind::upsample:
    case OpKind::upsample_backward:
    case OpKind::pad:
    case OpKind::pad_backward:
    case OpKind::global_avgpool:
    case OpKind::global_avgpool_backward:
    case OpKind::flatten:
    case OpKind::flatten_backward:
    case OpKind::dropout:
    case OpKind::dropout_backward:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::multiply_backward_gate:
    case OpKind::glu:
    case OpKind::glu_backward:
    case OpKind::concat:
    case OpKind::channel_slice:
    case OpKind::channel_slice_backward:
    case OpKind::repeat_row:
    case OpKind::sum_rows:
    case OpKind::place_channels:
      return Narrowed::all;
    case OpKind::attention:
    case OpKind::attention_backward:
      return Narrowed::all_but_logarithms;
    case OpKind::batchnorm2d:
    case OpKind::batchnorm2d_normalize:
    case OpKind::batchnorm2d_inference:
    case OpKind::batchnorm2d_inference_backward:
    case OpKind::batchnorm2d_backward:
    case OpKind::batchnorm2d_sums:
    case OpKind::batchnorm2d_gradient_sums:
    case OpKind::batchnorm2d_normalize_backward:
    case OpKind::layernorm:
    case OpKind::layernorm_backward:
    case OpKind::groupnorm:
    case OpKind::groupnorm_normalize:
    case OpKind::groupnorm_backward:
    case OpKind::prelu:
    case OpKind::prelu_backward:
    case OpKind::position_embedding:
    case OpKind::position_embedding_backward:
      return Narrowed::activations;
    // Of f32 alone, or with cases of their own for 16 bit.
    case OpKind::batchnorm2d_statistics:
    case OpKind::cached_attention:
    case OpKind::cast:
    case OpKind::document_spans:
    case OpKind::embedding:
    case OpKind::embedding_backward:
    case OpKind::start_loss_statistics:
    case OpKind::keep_part_statistics:
    case OpKind::sum_part_statistics:
    case OpKind::cross_entropy:
    case OpKind::cross_entropy_backward:
    case OpKind::cross_entropy_with_gradient:
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_with_gradient:
    case OpKind::mse:
    case OpKind::mse_backward:
    case OpKind::bce_with_logits:
    case OpKind::bce_with_logits_backward:
    case OpKind::smooth_l1:
    case OpKind::smooth_l1_backward:
    case OpKind::class_statistics:
    case OpKind::class_order:
    case OpKind::cross_entropy_of_parts:
    case OpKind::cross_entropy_of_parts_backward:
    case OpKind::dice_sums:
    case OpKind::dice:
    case OpKind::dice_backward:
    case OpKind::confusion_matrix:
    case OpKind::error_statistics:
    case OpKind::scale_gradient:
    case OpKind::gradient_squares:
    case OpKind::gradient_factor:
    case OpKind::sgd_update:
    case OpKind::adam_update:
    case OpKind::update_loss_scale:
    case OpKind::average_weights:
    case OpKind::fill_zero:
    case OpKind::all_reduce:
    case OpKind::reduce_scatter:
    case OpKind::all_gather:
    case OpKind::broadcast:
    case OpKind::send:
    case OpKind::receive:
    case OpKind::finish_exchange:
    case OpKind::offload:
    case OpKind::fetch:
      return Narrowed::none;
  }
  throw InternalError("internal error: an op of no known kind");
}

Op narrowed(Op op, DType type) {
  const Narrowed which = narrowed_operands(op.kind);
  if (which == Narrowed::none) return op;
  const Shape first = op.inputs[0].shape, whole = op.placed_at >= 0 ? op.outputs[0].shape : first;
  const auto narrow_all = [&](std::vector<TensorType>& operands, std::size_t count) {
    for (std::size_t i = 0; i < std::min(count, operands.size()); ++i)
      if (operands[i].dtype == DType::f32 && (which == Narrowed::all || which == Narrowed::all_but_logarithms ||
                                              operands[i].shape == first || operands[i].shape == whole))
        operands[i].dtype = type;
  };
  const bool adds = op.kind == OpKind::linear_backward_weight && attributes_of<LinearAttributes>(op).adds;
  narrow_all(op.inputs, adds ? 2 : op.inputs.size());
  narrow_all(op.outputs, op.outputs.size());
  if (op.kind == OpKind::attention) op.outputs.back().dtype = DType::f32;
  if (op.kind == OpKind::attention_backward) op.inputs.back().dtype = DType::f32;
  return op;
}

/// What f16 cannot hold stands as its largest number: the far ends of an activation.
double nearest(DType type, double value) {
  const double rounded = round_to(type, value);
  return std::isinf(rounded) ? std::copysign(65504.0, value) : rounded;
}

double largest_change(DType type, const Values& values) {
  double change = 0;
  for (const double value : values) change = std::max(change, std::fabs(nearest(type, value) - value));
  return change;
}

double deviation_of(const Values& values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += std::pow(value - mean, 2) / static_cast<double>(values.size());
  return std::sqrt(squares);
}

/// Beside the rounding of the result, that of the sums before the bias is added: they are at most |result| + |bias|,
/// and a tolerance is of 1 + |result|.
double rounding_before_bias(const OpCase& c, DType type) {
  if (c.op.kind != OpKind::conv_transpose2d || c.op.inputs.size() < 3) return 0;
  double largest = 1;
  for (const double bias : c.inputs[2]) largest = std::max(largest, std::fabs(bias));
  return largest * rounding_of(type);
}

/// Nothing where rounding the inputs makes another case of it: what varies in them is lost.
std::optional<OpCase> narrowed(OpCase c, DType type) {
  c.op = narrowed(std::move(c.op), type);
  c.tolerance += rounding_before_bias(c, type);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.op.inputs[i].dtype != type) continue;
    const double change = largest_change(type, c.inputs[i]);
    if (change == 0) continue;
    if (c.inputs[i].size() > 1 && change > 16 * rounding_of(type) * deviation_of(c.inputs[i])) return std::nullopt;
    for (double& value : c.inputs[i]) value = nearest(type, value);
    // Inputs that are results, such as the output that a gradient reads: it is off by a few times as much.
    c.tolerance += 4 * rounding_of(type);
  }
  return c;
}

const std::vector<NamedCases>& cases_with_short_inputs() {
  static const std::vector<NamedCases> cases = [] {
    const ShortRandomValues short_values;
    std::vector<NamedCases> all;
#define TRAINER_OP(name, attributes) \
  if (narrowed_operands(OpKind::name) != Narrowed::none) all.push_back({#name, name##_cases()});
    TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
    return all;
  }();
  return cases;
}

std::vector<NamedCases> make_half_cases(DType type) {
  std::vector<NamedCases> all;
  for (const auto& [name, cases] : cases_with_short_inputs()) {
    NamedCases narrow{name, {}};
    for (const OpCase& c : cases)
      if (auto short_case = narrowed(c, type)) narrow.cases.push_back(*std::move(short_case));
    narrow.cases = selected_cases(std::move(narrow.cases));
    all.push_back(std::move(narrow));
  }
  return all;
}

/// What attention by tensor cores may be off by beside the rounding of its results (Note [Attention in fragments] in
/// cuda/kernels/attention_mma.h). It rounds weights and scores' gradients to 16 bits for the products that take them,
/// and so are q and k where they are rotated: each is off by `rounding` of itself at most, and a result by `rounding`
/// of the sum of its products' magnitudes, which is about 1 as the operands are, and not of their sum, which may be 0.
/// Rotated features, two for each product, change the scores and all that is computed from them. In f16 that is 0.0005
/// for each, and a wrong pair, weight or sign changes a result by far more.
double rounding_of_weights(const OpCase& c, DType type) {
  if (c.op.kind != OpKind::attention && c.op.kind != OpKind::attention_backward) return 0;
  const bool rotates = attributes_of<AttentionAttributes>(c.op).rotary_base > 0;
  const std::int64_t width = attention_shape(c.op).width;
  if (width > 128 || width % (rotates ? 16 : 8) != 0) return 0;  // f32 kernels
  return (rotates ? 6 : 2) * rounding_of(type);
}

}  // namespace

const std::vector<NamedCases>& half_cases(DType type) {
  static const std::vector<NamedCases> f16 = make_half_cases(DType::f16), bf16 = make_half_cases(DType::bf16);
  return type == DType::f16 ? f16 : bf16;
}

std::vector<OpCase> larger_half_cases(DType type) {
  std::vector<OpCase> all;
  for (const OpCase& c : larger_cases()) {
    if (narrowed_operands(c.op.kind) == Narrowed::none) continue;
    all.push_back(c);
    all.back().op = narrowed(c.op, type);
    all.back().tolerance += rounding_before_bias(c, type);
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      if (all.back().op.inputs[i].dtype == type)
        for (double& value : all.back().inputs[i]) value = nearest(type, value);
  }
  return selected_cases(std::move(all));
}

std::vector<OpCase> larger_attention_cases(DType type) {
  std::vector<OpCase> found;
  for (const OpCase& c : with_rounded_weights(larger_half_cases(type), type)) {
    if (c.op.kind != OpKind::attention && c.op.kind != OpKind::attention_backward) continue;
    found.push_back(c);
    std::get<AttentionAttributes>(found.back().op.attributes).workspace_limit = std::int64_t{1} << 30;
  }
  return found;
}

std::vector<OpCase> with_rounded_weights(std::vector<OpCase> cases, DType type) {
  for (OpCase& c : cases) c.tolerance += rounding_of_weights(c, type);
  return cases;
}

std::vector<NamedCases> with_rounded_weights(std::vector<NamedCases> all, DType type) {
  for (NamedCases& named : all) named.cases = with_rounded_weights(std::move(named.cases), type);
  return all;
}

}  // namespace trainer
