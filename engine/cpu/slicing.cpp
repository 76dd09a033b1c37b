#include "engine/cpu/slicing.h"
#include "engine/half.h"

#include <algorithm>
#include <utility>

namespace trainer {

namespace {

/// What the widened rows of a slice take, where one row or image does not take more.
constexpr std::int64_t slice_bytes = 1 << 20;
/// (rows, columns) of an operand whose leading dimensions are `num_rows` together; images keep theirs.
Shape rows_of_shape(const Shape& shape, std::int64_t num_rows, std::int64_t rows) {
  if (shape[0] == num_rows) return shape.with_batch(rows);
  return Shape{rows, shape.num_elements() / num_rows};
}

}  // namespace

std::vector<Part> parts(std::size_t count, std::size_t num_first, Part first, Part others) {
  std::vector<Part> result(count, others);
  std::fill_n(result.begin(), std::min(num_first, count), first);
  return result;
}

std::optional<Cut> takes_16_bit(const Op&) { return std::nullopt; }

std::optional<Cut> cut_nowhere(const Op& op) {
  return Cut{.inputs = std::vector<Part>(op.inputs.size(), Part::whole),
             .outputs = std::vector<Part>(op.outputs.size(), Part::whole)};
}

std::optional<Cut> cut_by_image(const Op& op) {
  return Cut{.num_rows = op.inputs[0].shape[0],
             .inputs = std::vector<Part>(op.inputs.size(), Part::rows),
             .outputs = std::vector<Part>(op.outputs.size(), Part::rows)};
}

Cut cut_forward(const Op& op, std::int64_t num_rows, Part behind_output) {
  return {.num_rows = num_rows,
          .inputs = parts(op.inputs.size(), 1, Part::rows, Part::whole),
          .outputs = parts(op.outputs.size(), 1, Part::rows, behind_output)};
}

Cut cut_input_gradient(const Op& op, std::int64_t num_rows) {
  Cut cut{.num_rows = num_rows,
          .inputs = std::vector<Part>(op.inputs.size(), Part::rows),
          .outputs = std::vector<Part>(op.outputs.size(), Part::rows)};
  cut.inputs[1] = Part::whole;
  return cut;
}

Cut cut_weight_gradient(const Op& op, std::int64_t num_rows) {
  return {.num_rows = num_rows,
          .inputs = parts(op.inputs.size(), 2, Part::rows, Part::whole),
          .outputs = std::vector<Part>(op.outputs.size(), Part::sum)};
}

Slicing slices_of(const Op& op, Cut cut) {
  Slicing slicing{std::move(cut)};
  std::int64_t widened = 0;
  const auto add = [&](const std::vector<TensorType>& types, const std::vector<Part>& operand_parts) {
    for (std::size_t i = 0; i < types.size(); ++i)
      if (operand_parts[i] == Part::rows && is_16_bit(types[i].dtype)) widened += types[i].num_elements();
  };
  add(op.inputs, slicing.inputs);
  add(op.outputs, slicing.outputs);
  const std::int64_t row_bytes =
      std::max<std::int64_t>(1, widened / slicing.num_rows * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t least = std::min(slicing.least_rows, slicing.num_rows);
  const std::int64_t most = std::clamp(slice_bytes / row_bytes, least, slicing.num_rows);
  const std::int64_t num_slices = (slicing.num_rows + most - 1) / most;
  slicing.slice_rows = (slicing.num_rows + num_slices - 1) / num_slices;
  return slicing;
}

Op slice_of(const Op& op, const Slicing& slicing, std::int64_t rows) {
  Op slice = op;
  const auto cut = [&](std::vector<TensorType>& types, const std::vector<Part>& operand_parts) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (is_16_bit(types[i].dtype)) types[i].dtype = DType::f32;
      if (operand_parts[i] == Part::rows) types[i].shape = rows_of_shape(types[i].shape, slicing.num_rows, rows);
    }
  };
  cut(slice.inputs, slicing.inputs);
  cut(slice.outputs, slicing.outputs);
  return slice;
}

}  // namespace trainer
