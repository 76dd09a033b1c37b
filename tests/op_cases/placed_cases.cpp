#include "tests/op_cases/placed_cases.h"

#include <utility>

namespace trainer {

namespace {

/// `whole` with the channels from `first` on replaced by `part`.
Values placed_in(Values whole, std::int64_t row_channels, const Values& part, std::int64_t channels,
                 std::int64_t first) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / channels, channel = static_cast<std::int64_t>(i) % channels;
    whole[static_cast<std::size_t>(row * row_channels + first + channel)] = part[i];
  }
  return whole;
}

OpCase placed_case(OpCase c, std::int64_t before, std::int64_t behind) {
  TensorType whole = c.op.outputs[0];
  const std::int64_t channels = whole.shape[-1];
  whole.shape[-1] = before + channels + behind;
  const Values so_far = random_values(whole, 17);
  c.name += ", placed behind " + std::to_string(before) + " of " + std::to_string(whole.shape[-1]);
  c.op = placed_op(std::move(c.op), whole, before, true);
  c.inputs.push_back(so_far);
  c.expected.outputs[0] = placed_in(so_far, whole.shape[-1], c.expected.outputs[0], channels, before);
  return c;
}

}  // namespace

void append_placed(std::vector<OpCase>& cases) {
  const std::size_t num_cases = cases.size();
  for (std::size_t i = 0; i < num_cases; ++i) {
    // Longer ones tell nothing more.
    if (cases[i].op.outputs[0].shape.rank() < 2 || cases[i].op.outputs[0].num_elements() > 6000) continue;
    for (const auto& [before, behind] : {std::pair{5, 3}, {0, 8}, {16, 0}})
      cases.push_back(placed_case(cases[i], before, behind));
  }
}

std::vector<OpCase> place_channels_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 3}, Shape{2, 3, 5, 8}, Shape{3, 17, 5, 24}, Shape{131, 64}}) {
    const TensorType x{DType::f32, shape};
    const Values values = random_values(x, 1);
    OpCase unplaced{shape.to_string(), {OpKind::place_channels, std::monostate{}, {x}, {x}}, {values}, {{values}}};
    unplaced.tolerance = 0;
    for (const auto& [before, behind] : {std::pair{5, 3}, {0, 8}, {16, 0}})
      cases.push_back(placed_case(unplaced, before, behind));
  }
  return cases;
}

}  // namespace trainer
