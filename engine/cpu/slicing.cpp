#include "engine/cpu/slicing.h"

#include <algorithm>

namespace trainer {

namespace {

/// What the widened rows of a slice take, where one row or image does not take more.
constexpr std::int64_t slice_bytes = 1 << 20;
/// A product reads its weights once for each slice, so that it takes as many rows as keep that cheap.
constexpr std::int64_t least_product_rows = 64;

bool is_16_bit(const TensorType& type) { return type.dtype == DType::f16 || type.dtype == DType::bf16; }

bool is_linear(OpKind kind) {
  return kind == OpKind::linear || kind == OpKind::linear_backward_input || kind == OpKind::linear_backward_weight;
}

/// Parts of `count` operands: `first` of the first `num_first`, `others` of those behind them.
std::vector<Part> parts(std::size_t count, std::size_t num_first, Part first, Part others) {
  std::vector<Part> result(count, others);
  std::fill_n(result.begin(), std::min(num_first, count), first);
  return result;
}

/// Parts of the inputs and outputs; slicing_of counts the rows.
Slicing parts_of(const Op& op) {
  const std::size_t num_inputs = op.inputs.size(), num_outputs = op.outputs.size();
  const auto all = [&](std::vector<Part> inputs, Part outputs) {
    return Slicing{1, 1, std::move(inputs), parts(num_outputs, num_outputs, outputs, outputs)};
  };
  switch (op.kind) {
    case OpKind::linear:
    case OpKind::conv2d:  // behind y may stand its statistics
    case OpKind::layernorm: {
      const bool has_statistics = op.kind == OpKind::conv2d && num_outputs > 1;
      return {1, 1, parts(num_inputs, 1, Part::rows, Part::whole),
              parts(num_outputs, has_statistics ? 1 : num_outputs, Part::rows, Part::sum)};
    }
    case OpKind::linear_backward_input:
    case OpKind::conv2d_backward_input: {
      std::vector<Part> inputs(num_inputs, Part::rows);
      inputs[1] = Part::whole;
      return all(std::move(inputs), Part::rows);
    }
    case OpKind::linear_backward_weight:
    case OpKind::conv2d_backward_weight:  // behind dy and x stands what each slice adds to, in f32
      return all(parts(num_inputs, 2, Part::rows, Part::whole), Part::sum);
    case OpKind::layernorm_backward:
      return {1, 1, parts(num_inputs, 4, Part::rows, Part::whole), parts(num_outputs, 1, Part::rows, Part::sum)};
    case OpKind::maxpool2d:
    case OpKind::maxpool2d_backward:
    case OpKind::avgpool2d:
    case OpKind::avgpool2d_backward:
    case OpKind::global_avgpool:
    case OpKind::global_avgpool_backward:
    case OpKind::flatten:
    case OpKind::flatten_backward:
      return all(parts(num_inputs, num_inputs, Part::rows, Part::rows), Part::rows);
    default:  // what mixes rows, or is not worth a rule
      return all(parts(num_inputs, num_inputs, Part::whole, Part::whole), Part::whole);
  }
}

std::int64_t rows_of(const Op& op) {
  const TensorType& first = op.inputs[0];
  const bool has_rows = is_linear(op.kind) || op.kind == OpKind::layernorm || op.kind == OpKind::layernorm_backward;
  return has_rows ? first.num_elements() / first.shape[-1] : first.shape[0];
}

/// As few slices as keep to slice_bytes, and those as alike as can be.
std::int64_t rows_of_slice(const Op& op, const Slicing& slicing) {
  std::int64_t widened = 0;
  const auto add = [&](const std::vector<TensorType>& types, const std::vector<Part>& operand_parts) {
    for (std::size_t i = 0; i < types.size(); ++i)
      if (operand_parts[i] == Part::rows && is_16_bit(types[i])) widened += types[i].num_elements();
  };
  add(op.inputs, slicing.inputs);
  add(op.outputs, slicing.outputs);
  const std::int64_t row_bytes =
      std::max<std::int64_t>(1, widened / slicing.num_rows * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t least = is_linear(op.kind) ? least_product_rows : 1;
  const std::int64_t most = std::clamp(slice_bytes / row_bytes, std::min(least, slicing.num_rows), slicing.num_rows);
  const std::int64_t num_slices = (slicing.num_rows + most - 1) / most;
  return (slicing.num_rows + num_slices - 1) / num_slices;
}

/// (rows, columns) of an operand whose leading dimensions are `num_rows` together; images keep theirs.
Shape rows_of_shape(const Shape& shape, std::int64_t num_rows, std::int64_t rows) {
  if (shape[0] == num_rows) return shape.with_batch(rows);
  return Shape{rows, shape.num_elements() / num_rows};
}

}  // namespace

bool has_16_bit_operand(const Op& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_16_bit) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_16_bit);
}

Slicing slicing_of(const Op& op) {
  Slicing slicing = parts_of(op);
  if (std::find(slicing.inputs.begin(), slicing.inputs.end(), Part::rows) == slicing.inputs.end()) return slicing;
  slicing.num_rows = rows_of(op);
  slicing.slice_rows = rows_of_slice(op, slicing);
  return slicing;
}

Op slice_of(const Op& op, const Slicing& slicing, std::int64_t rows) {
  Op slice = op;
  const auto cut = [&](std::vector<TensorType>& types, const std::vector<Part>& operand_parts) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (is_16_bit(types[i])) types[i].dtype = DType::f32;
      if (operand_parts[i] == Part::rows) types[i].shape = rows_of_shape(types[i].shape, slicing.num_rows, rows);
    }
  };
  cut(slice.inputs, slicing.inputs);
  cut(slice.outputs, slicing.outputs);
  return slice;
}

}  // namespace trainer
