#include "tests/op_cases/sum_checks.h"

#include <catch2/catch.hpp>
#include <utility>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// What an op gives for inputs that its operands' types hold.
std::vector<Values> results_of(Device& device, const Op& op, const std::vector<Values>& inputs) {
  const OpResult result = run_op(device, {"", op, inputs, {}}, std::byte{0xFF});
  std::vector<Values> outputs;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) outputs.push_back(to_values(op.outputs[i], result.outputs[i]));
  return outputs;
}

Values held_by(DType type, const Values& values) {
  const TensorType tensor{type, {static_cast<std::int64_t>(values.size())}};
  return to_values(tensor, to_bytes(tensor, values));
}

void check_batchnorm(Device& device, const TensorType& x, bool affine, bool relu) {
  const Op norm = batchnorm2d_op(x, {.affine = affine});
  const std::int64_t channels = x.shape[3];
  const Values values = random_values(x, 1), addend = random_values(x, 2);
  std::vector<Values> inputs = {values, random_values(channels, 3), random_values(channels, 4, 0.5, 2)};
  if (affine) inputs.insert(inputs.end(), {random_values(channels, 5, 0.5, 2), random_values(channels, 6)});
  const auto check = [&](const Op& op, const std::vector<Values>& of_norm) {
    std::vector<Values> expected = results_of(device, op, of_norm);
    expected[0] = results_of(device, add_op(x, {.relu = relu}), {expected[0], addend})[0];
    std::vector<Values> of_both = of_norm;
    of_both.push_back(addend);
    const bool same = results_of(device, batchnorm2d_adding_op(op, relu), of_both) == expected;
    CHECK(same);
    return expected;
  };
  const std::vector<Values> made = check(norm, inputs);
  check(batchnorm2d_inference_op(x, {.affine = affine}), inputs);
  inputs[1] = made[1];
  inputs[2] = made[2];
  check(batchnorm2d_normalize_op(norm), inputs);
}

void check_batchnorm_gradient(Device& device, const TensorType& x, bool affine) {
  const BatchNorm2dAttributes attributes{.affine = affine};
  const std::int64_t channels = x.shape[3];
  const Values dy = held_by(x.dtype, random_values(x, 1)), y = held_by(x.dtype, random_values(x, 2));
  std::vector<Values> inputs = {dy, held_by(x.dtype, random_values(x, 3)), random_values(channels, 4),
                                random_values(channels, 5, 0.5, 2)};
  if (affine) inputs.push_back(random_values(channels, 6));
  std::vector<Values> of_both = inputs;
  of_both.push_back(y);
  inputs[0] = results_of(device, activation_backward_op(x, {.function = Activation::relu}), {dy, y})[0];
  std::vector<Values> expected = results_of(device, batchnorm2d_backward_op(batchnorm2d_op(x, attributes)), inputs);
  expected.push_back(inputs[0]);
  const Op fused = batchnorm2d_backward_op(batchnorm2d_op(x, {.affine = affine, .relu = true, .adds = true}));
  const bool same = results_of(device, fused, of_both) == expected;
  CHECK(same);
}

void check_layernorm(Device& device, const TensorType& x, const LayerNormAttributes& attributes) {
  const Op norm = layernorm_op(x, attributes);
  const Values values = held_by(x.dtype, random_values(x, 1)), addend = held_by(x.dtype, random_values(x, 2));
  const Values sum = results_of(device, add_op(x), {values, addend})[0];
  std::vector<Values> inputs = {sum};
  if (attributes.affine) inputs.push_back(random_values(x.shape[-1], 3, 0.5, 2));
  if (attributes.affine && attributes.centres) inputs.push_back(random_values(x.shape[-1], 4));
  std::vector<Values> expected = results_of(device, norm, inputs);
  expected.push_back(sum);
  inputs[0] = values;
  inputs.push_back(addend);
  const bool same = results_of(device, layernorm_adding_op(norm), inputs) == expected;
  CHECK(same);
}

}  // namespace

void check_sums_equal_two_ops(Device& device) {
  for (const bool affine : {false, true}) {
    // Less than a pack, whole packs and tiles, just past a tile; sums in one part, and in several.
    for (const Shape& shape : {Shape{2, 1, 1, 1}, Shape{3, 5, 7, 3}, Shape{2, 3, 3, 64}, Shape{2, 3, 5, 67},
                               Shape{1, 37, 31, 12}, Shape{2, 24, 24, 128}}) {
      INFO(shape.to_string() << (affine ? ", affine" : ""));
      for (const bool relu : {false, true}) check_batchnorm(device, {DType::f32, shape}, affine, relu);
      for (const DType type : {DType::f32, DType::f16, DType::bf16})
        check_batchnorm_gradient(device, {type, shape}, affine);
    }
    for (const Shape& shape : {Shape{1, 2}, Shape{5, 7}, Shape{67, 64}, Shape{3, 5, 65}, Shape{3, 1031}}) {
      INFO(shape.to_string() << (affine ? ", affine" : ""));
      for (const DType type : {DType::f32, DType::f16, DType::bf16})
        for (const bool centres : {true, false})
          check_layernorm(device, {type, shape}, {.affine = affine, .centres = centres});
    }
  }
}

}  // namespace trainer
