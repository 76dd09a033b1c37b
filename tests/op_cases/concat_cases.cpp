#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// Tensors that are put side by side, over rows of a few shapes.
struct Parts {
  std::vector<std::int64_t> rows;  ///< all dimensions but the last
  std::vector<std::int64_t> channels;
};

const std::vector<Parts>& parts_lists() {
  static const std::vector<Parts> lists = {{{1}, {1, 1}},          {{3}, {5, 2, 9}},         {{2, 3, 5}, {7, 1}},
                                           {{2, 4, 3}, {8, 16}},   {{1, 9, 7}, {4, 12, 8}},  {{131}, {64, 65}},
                                           {{3, 17, 5}, {24, 40}}, {{2, 2, 2}, {3, 3, 3, 3}}};
  return lists;
}

TensorType typed(const std::vector<std::int64_t>& rows, std::int64_t channels) {
  std::vector<std::int64_t> dims = rows;
  dims.push_back(channels);
  return {DType::f32, Shape(dims)};
}

/// Channels [first, first + channels) of x, whose rows have `of_row`.
Values channels_of(const Values& x, std::int64_t of_row, std::int64_t first, std::int64_t channels) {
  Values y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto channel = static_cast<std::int64_t>(i) % of_row;
    if (channel >= first && channel < first + channels) y.push_back(x[i]);
  }
  return y;
}

}  // namespace

// Where each number comes from is told by taking the result apart again.
std::vector<OpCase> concat_cases() {
  std::vector<OpCase> cases;
  for (const Parts& parts : parts_lists()) {
    std::vector<TensorType> types;
    std::int64_t of_row = 0;
    for (const std::int64_t channels : parts.channels) {
      types.push_back(typed(parts.rows, channels));
      of_row += channels;
    }
    const Values y = random_values(typed(parts.rows, of_row), 3);
    std::vector<Values> inputs;
    std::int64_t first = 0;
    for (const std::int64_t channels : parts.channels) {
      inputs.push_back(channels_of(y, of_row, first, channels));
      first += channels;
    }
    const Op op = concat_op(types);
    cases.push_back({op.outputs[0].to_string(), op, inputs, {{y}}});
    cases.back().tolerance = 0;
  }
  return cases;
}

std::vector<OpCase> channel_slice_cases() {
  std::vector<OpCase> cases;
  for (const Parts& parts : parts_lists()) {
    std::int64_t of_row = 0;
    for (const std::int64_t channels : parts.channels) of_row += channels;
    const TensorType x = typed(parts.rows, of_row);
    const Values values = random_values(x, 4);
    std::int64_t first = 0;
    for (const std::int64_t channels : parts.channels) {
      cases.push_back({x.to_string() + " from " + std::to_string(first),
                       channel_slice_op(x, channels, {.first = first}),
                       {values},
                       {{channels_of(values, of_row, first, channels)}}});
      cases.back().tolerance = 0;
      first += channels;
    }
  }
  return cases;
}

std::vector<OpCase> channel_slice_backward_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& slice : channel_slice_cases()) {
    const std::int64_t of_row = slice.op.inputs[0].shape[-1], channels = slice.op.outputs[0].shape[-1];
    const std::int64_t first = attributes_of<ChannelSliceAttributes>(slice.op).first;
    const Values dy = random_values(slice.op.outputs[0], 5);
    Values dx(static_cast<std::size_t>(slice.op.inputs[0].num_elements()), 0);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      dx[static_cast<std::size_t>(at / channels * of_row + first + at % channels)] = dy[i];
    }
    cases.push_back({slice.name, channel_slice_backward_op(slice.op), {dy}, {{dx}}});
    cases.back().tolerance = 0;
  }
  return cases;
}

}  // namespace trainer
