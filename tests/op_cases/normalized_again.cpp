#include "tests/op_cases/normalized_again.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

/// Most numbers of a group of `width` channels are a few units of the last place around one number; outliers on both
/// sides of it keep the deviation up. So with a bias of 0, outputs are of either sign, or 0, by rounding alone. The
/// first group is spread out.
Values numbers_around_their_mean(const TensorType& x, std::int64_t width) {
  const std::int64_t channels = x.shape[3];
  const Values centres = random_values(channels, 1, 0.1, 3);
  const Values draws = random_values(x, 2);
  Values values;
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const double draw = draws[static_cast<std::size_t>(i)];
    const auto centre = static_cast<float>(centres[static_cast<std::size_t>(i % channels / width)]);
    if (i % channels < width) {
      values.push_back(static_cast<double>(static_cast<float>(draw)));
    } else if (i / channels % 8 < 2) {
      values.push_back(static_cast<double>(centre + (i / channels % 8 == 0 ? 0.5F : -0.5F)));
    } else {
      const float unit = std::nextafter(centre, 4.0F) - centre;
      values.push_back(static_cast<double>(centre + static_cast<float>(std::floor(draw * 4)) * unit));
    }
  }
  return values;
}

struct Forward {
  Op op;
  Values x;
  std::vector<Values> parameters;  ///< weight and bias, or none
  Values y, mean, rstd;
  std::vector<std::byte> bits_of_y;
};

/// `groups`: of a group norm; 0: a batch norm.
Forward run_forward(Device& device, const Shape& shape, std::int64_t groups, bool affine, bool relu, bool capped) {
  const TensorType x{DType::f32, shape};
  const std::int64_t channels = shape[3];
  Forward forward{groups > 0 ? groupnorm_op(x, {.groups = groups, .affine = affine, .relu = relu})
                             : batchnorm2d_op(x, {.affine = affine, .relu = relu, .capped = capped}),
                  numbers_around_their_mean(x, groups > 0 ? channels / groups : 1),
                  {},
                  {},
                  {},
                  {},
                  {}};
  std::vector<Values> inputs = {forward.x};
  if (groups == 0) inputs.insert(inputs.end(), {random_values(channels, 3), random_values(channels, 4, 0.5, 2)});
  if (affine) {
    const double large = capped ? 8 : 1;
    forward.parameters.push_back(random_values(channels, 5, -1.5 * large, 1.5 * large));
    Values bias = random_values(channels, 6);
    for (std::size_t c = 0; c < bias.size(); ++c) bias[c] = c % 3 == 2 ? bias[c] : 0;
    forward.parameters.push_back(bias);
    inputs.insert(inputs.end(), forward.parameters.begin(), forward.parameters.end());
  }
  const OpResult result = run_op(device, {"", forward.op, inputs, {}}, std::byte{0xFF});
  forward.bits_of_y = result.outputs[0];
  forward.y = to_values(forward.op.outputs[0], result.outputs[0]);
  forward.mean = to_values(forward.op.outputs[1], result.outputs[1]);
  forward.rstd = to_values(forward.op.outputs[2], result.outputs[2]);
  return forward;
}

/// Odd sizes; less than a pack, whole packs and tiles, just past a tile; sums in one part, and in several.
template <typename Check>
void for_every_forward(Device& device, Check&& check) {
  std::int64_t num_tiny = 0, num_tiny_of_groups = 0;
  for (const Shape& shape : {Shape{1, 1, 2, 1}, Shape{3, 5, 7, 3}, Shape{2, 3, 3, 64}, Shape{2, 3, 5, 67},
                             Shape{1, 37, 31, 12}, Shape{5, 29, 17, 2}, Shape{2, 24, 24, 128}}) {
    const std::int64_t channels = shape[3];
    for (const std::int64_t groups : {std::int64_t{0}, std::int64_t{1}, channels % 4 == 0 ? channels / 4 : channels}) {
      for (const bool affine : {false, true}) {
        for (const auto& [relu, capped] : {std::pair{false, false}, {true, false}, {true, true}}) {
          if (groups > 0 && capped) continue;
          INFO(shape.to_string() << ", " << groups << " groups" << (affine ? ", affine" : "")
                                 << (capped ? ", relu6"
                                     : relu ? ", relu"
                                            : ""));
          const Forward forward = run_forward(device, shape, groups, affine, relu, capped);
          for (const double y : forward.y) (groups > 0 ? num_tiny_of_groups : num_tiny) += y > 0 && y < 1e-5;
          check(forward);
        }
      }
    }
  }
  CHECK(num_tiny > 1000);
  CHECK(num_tiny_of_groups > 1000);
}

bool applies_relu(const Op& op) {
  if (const auto* const group_norm = std::get_if<GroupNormAttributes>(&op.attributes)) return group_norm->relu;
  return attributes_of<BatchNorm2dAttributes>(op).relu;
}
Op without_relu(Op op) {
  if (auto* const group_norm = std::get_if<GroupNormAttributes>(&op.attributes)) {
    group_norm->relu = false;
  } else {
    auto& attributes = std::get<BatchNorm2dAttributes>(op.attributes);
    attributes.relu = attributes.capped = false;
  }
  return op;
}
Op normalize_op_of(const Op& op) {
  return op.kind == OpKind::groupnorm ? groupnorm_normalize_op(op) : batchnorm2d_normalize_op(op);
}
Op backward_op_of(const Op& op) {
  return op.kind == OpKind::groupnorm ? groupnorm_backward_op(op) : batchnorm2d_backward_op(op);
}

}  // namespace

void check_normalized_again(Device& device) {
  for_every_forward(device, [&](const Forward& forward) {
    OpCase again{"", normalize_op_of(forward.op), {forward.x, forward.mean, forward.rstd}, {}};
    again.inputs.insert(again.inputs.end(), forward.parameters.begin(), forward.parameters.end());
    const bool same_bits = run_op(device, again, std::byte{0xFF}).outputs[0] == forward.bits_of_y;
    CHECK(same_bits);
    const bool same_in_place = run_op(device, again, std::byte{0xFF}, {{0, 0}}).outputs[0] == forward.bits_of_y;
    CHECK(same_in_place);
  });
}

void check_gradient_passes_where_output_was_positive(Device& device) {
  for_every_forward(device, [&](const Forward& forward) {
    if (!applies_relu(forward.op)) return;
    OpCase with{"", backward_op_of(forward.op), {}, {}};
    OpCase without{"", backward_op_of(without_relu(forward.op)), {}, {}};
    const Values dy = random_values(forward.op.inputs[0], 7);
    const auto* const batch_norm = std::get_if<BatchNorm2dAttributes>(&forward.op.attributes);
    const bool is_capped = batch_norm != nullptr && batch_norm->capped;
    Values passed;
    for (std::size_t i = 0; i < dy.size(); ++i)
      passed.push_back(forward.y[i] > 0 && (!is_capped || forward.y[i] < 6) ? dy[i] : 0);
    with.inputs = {dy, forward.x, forward.mean, forward.rstd};
    without.inputs = {passed, forward.x, forward.mean, forward.rstd};
    if (!forward.parameters.empty()) {
      with.inputs.insert(with.inputs.end(), forward.parameters.begin(), forward.parameters.end());
      without.inputs.push_back(forward.parameters[0]);
    }
    const bool same_bits =
        run_op(device, with, std::byte{0xFF}).outputs == run_op(device, without, std::byte{0xFF}).outputs;
    CHECK(same_bits);
  });
}

}  // namespace trainer
