#include <catch2/catch.hpp>

#include "engine/ops/op_definition.h"

using namespace trainer;

namespace {
TensorType f32(Shape shape) { return {DType::f32, shape}; }
}  // namespace

// Expected shapes are those torch.nn reports for the same modules (there as N, C, H, W).
TEST_CASE("conv2d has PyTorch's output shape with stride, padding and dilation, and weights with channels last") {
  const Op op =
      conv2d_op(f32({2, 17, 23, 6}),
                {.out = 8, .kernel = {3, 5}, .stride = {2, 3}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2});
  CHECK(op.outputs[0].shape == Shape{2, 8, 8, 8});
  CHECK(op.inputs[1].shape == Shape{8, 3, 5, 3});
  CHECK(op.inputs[2].shape == Shape{8});
  CHECK(conv2d_backward_input_op(op).outputs[0] == op.inputs[0]);
  CHECK(conv2d_backward_weight_op(op).outputs[0] == op.inputs[1]);
}

TEST_CASE("a convolution counts two operations for each weight of each output element") {
  const Op op = conv2d_op(f32({1, 8, 8, 4}), {.out = 6, .kernel = {3, 3}, .padding = {1, 1}});
  CHECK(definition_of(op.kind).flops(op) == 2 * (8 * 8 * 6) * (4 * 3 * 3));
  const Op dx = conv2d_backward_input_op(op);
  CHECK(definition_of(dx.kind).flops(dx) == 2 * (8 * 8 * 6) * (4 * 3 * 3));
  const Op dw = conv2d_backward_weight_op(op);
  CHECK(definition_of(dw.kind).flops(dw) == 2 * (8 * 8 * 6) * (4 * 3 * 3));
}

TEST_CASE("linear counts rows times in times out multiply-adds, forward and twice backward") {
  const Op op = linear_op(f32({5, 7}), {.out = 3});
  const Op dx = linear_backward_input_op(op);
  const Op dw = linear_backward_weight_op(op);
  for (const Op& each : {op, dx, dw}) CHECK(definition_of(each.kind).flops(each) == 2 * 5 * 7 * 3);
}

TEST_CASE("pooling rounds the output down and defaults follow the window") {
  CHECK(maxpool2d_op(f32({1, 7, 9, 3}), {.kernel = {2, 3}, .stride = {2, 3}}).outputs[0].shape == Shape{1, 3, 3, 3});
  CHECK(avgpool2d_op(f32({1, 7, 7, 3}), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}).outputs[0].shape ==
        Shape{1, 4, 4, 3});
  CHECK(maxpool2d_op(f32({1, 4, 4, 1}), {}).outputs[1].dtype == DType::u8);
}

TEST_CASE("conv_transpose2d has PyTorch's output shape and weight, and the FLOPs of the convolution that it undoes") {
  using Catch::Matchers::Contains;
  const Op op = conv_transpose2d_op(f32({2, 5, 7, 6}), {.out = 8,
                                                        .kernel = {3, 5},
                                                        .stride = {2, 3},
                                                        .padding = {1, 2},
                                                        .output_padding = {1, 2},
                                                        .dilation = {2, 1},
                                                        .groups = 2});
  // torch.nn.ConvTranspose2d(6, 8, (3, 5), (2, 3), (1, 2), (1, 2), 2, dilation=(2, 1)): 2×8×12×21, weight 6×4×3×5
  CHECK(op.outputs[0].shape == Shape{2, 12, 21, 8});
  CHECK(op.inputs[1].shape == Shape{6, 3, 5, 4});
  CHECK(op.inputs[2].shape == Shape{8});
  CHECK(conv_transpose2d_backward_input_op(op).outputs[0] == op.inputs[0]);
  const Op weight = conv_transpose2d_backward_weight_op(op);
  CHECK(weight.outputs == std::vector<TensorType>{op.inputs[1], op.inputs[2]});
  const std::int64_t flops = 2 * (2 * 5 * 7 * 6) * (3 * 5 * 4);
  for (const Op& each : {op, weight, conv_transpose2d_backward_input_op(op)})
    CHECK(definition_of(each.kind).flops(each) == flops);
  CHECK_THROWS_WITH(conv_transpose2d_op(f32({2, 3, 3, 3}), {.out = 4, .padding = {2, 0}}),
                    Contains("leaves nothing of its input 2×3×3×3"));
  CHECK_THROWS_WITH(conv_transpose2d_op(f32({2, 3, 3, 3}), {.out = 4, .groups = 2}), Contains("groups 2"));
  CHECK_THROWS_WITH(conv_transpose2d_op(f32({2, 30}), {.out = 4}), Contains("2×30"));
  CHECK_THROWS_WITH(conv_transpose2d_op(f32({2, 3, 3, 3}), {.out = 4, .stride = {2147483647, 1}}), Contains("2^31"));
}

TEST_CASE("pooling with ceil_mode rounds up, but for a window that would begin behind the image") {
  const auto size_of = [](std::int64_t x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
    const Pool2dAttributes a{.kernel = {kernel, 1}, .stride = {stride, 1}, .padding = {padding, 0}, .ceil_mode = true};
    return pooled_shape({1, x, 1, 1}, a)[1];
  };
  // As torch.nn.MaxPool2d(kernel, stride, padding, ceil_mode=True).
  CHECK(size_of(7, 2, 2, 0) == 4);
  CHECK(size_of(8, 2, 2, 0) == 4);
  CHECK(size_of(112, 3, 2, 0) == 56);
  CHECK(size_of(5, 2, 3, 1) == 2);
  CHECK(size_of(6, 2, 4, 1) == 2);
  CHECK(size_of(3, 1, 4, 0) == 1);
  CHECK(size_of(5, 1, 3, 0) == 2);
}

TEST_CASE("upsample and pad have PyTorch's output shapes and refuse what cannot be") {
  using Catch::Matchers::Contains;
  CHECK(upsample_op(f32({2, 3, 5, 7}), {.scale = {2, 3}}, {}).outputs[0].shape == Shape{2, 6, 15, 7});
  CHECK(upsample_op(f32({2, 3, 5, 7}), {}, {9, 2}).outputs[0].shape == Shape{2, 9, 2, 7});
  CHECK(pad_op(f32({2, 3, 5, 7}), {.size = {1, 2, 3, 4}}).outputs[0].shape == Shape{2, 6, 12, 7});
  CHECK_NOTHROW(pad_op(f32({2, 3, 5, 7}), {.size = {2, 2, 4, 4}, .mode = PadMode::reflect}));
  CHECK_THROWS_WITH(pad_op(f32({2, 3, 5, 7}), {.size = {3, 0, 0, 0}, .mode = PadMode::reflect}), Contains("mirror"));
  CHECK_THROWS_WITH(pad_op(f32({2, 3, 5, 7}), {.size = {0, 0, 0, 5}, .mode = PadMode::reflect}), Contains("mirror"));
  CHECK_THROWS_WITH(pad_op(f32({2, 35}), {.size = {1, 1, 1, 1}}), Contains("2×35"));
  CHECK_THROWS_WITH(upsample_op(f32({2, 35}), {.scale = {2, 2}}, {}), Contains("2×35"));
  CHECK_THROWS_WITH(upsample_op(f32({1, 65536, 1, 1}), {.scale = {65536, 1}}, {}), Contains("below 2^31"));
}

TEST_CASE("shapes that cannot work are refused with both shapes") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(cross_entropy_op(f32({2, 8, 8, 3}), {DType::i32, {2}}, {}),
                    Contains("2×8×8×3") && Contains("flatten"));
  CHECK_THROWS_WITH(conv2d_op(f32({2, 64}), {.out = 4}), Contains("2×64"));
  CHECK_THROWS_WITH(conv2d_op(f32({2, 4, 4, 3}), {.out = 4, .kernel = {5, 5}}), Contains("5×5") && Contains("2×4×4×3"));
  CHECK_THROWS_WITH(conv2d_op(f32({2, 4, 4, 3}), {.out = 4, .groups = 2}), Contains("groups 2"));
  CHECK_THROWS_WITH(maxpool2d_op(f32({2, 2, 2, 3}), {.kernel = {3, 3}}), Contains("3×3"));
  CHECK_THROWS_WITH(maxpool2d_op(f32({2, 64, 64, 3}), {.kernel = {17, 1}}), Contains("16×16"));
}

TEST_CASE("adaptive pooling makes the size it is told, of any image but one that cannot be counted") {
  using Catch::Matchers::Contains;
  const Op op = adaptive_avgpool2d_op(f32({2, 9, 3, 5}), {7, 4});
  CHECK(op.outputs[0].shape == Shape{2, 7, 4, 5});
  // Windows of 9 rows for 7: 2 of them each but the first and the last, which end on a row's border.
  CHECK(definition_of(op.kind).flops(op) == (9 + 7 - 1) * (3 + 4 - 1) * 2 * 5);
  CHECK(definition_of(OpKind::adaptive_avgpool2d_backward).flops(adaptive_avgpool2d_backward_op(op)) ==
        definition_of(op.kind).flops(op));
  CHECK_THROWS_WITH(adaptive_avgpool2d_op(f32({2, 64}), {7, 7}), Contains("2×64"));
  CHECK_NOTHROW(adaptive_avgpool2d_op(f32({1, 2, 1, 1}), {1073741823, 1}));
  CHECK_THROWS_WITH(adaptive_avgpool2d_op(f32({1, 2, 1, 1}), {1073741824, 1}), Contains("below 2^31"));
}

TEST_CASE("equal ops are equal and hash alike; another attribute makes another op") {
  const Op a = linear_op(f32({5, 7}), {.out = 3});
  const Op b = linear_op(f32({5, 7}), {.out = 3});
  const Op c = linear_op(f32({5, 7}), {.out = 3, .relu = true});
  CHECK(a == b);
  CHECK(OpHash{}(a) == OpHash{}(b));
  CHECK_FALSE(a == c);
}

TEST_CASE("a device with no scratch for an op that takes some, or with some for one that takes none, is refused") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(require_defined_scratch(OpKind::conv2d_backward_weight, false), Contains("conv2d_backward_weight"));
  CHECK_THROWS_AS(require_defined_scratch(OpKind::add, true), InternalError);
  CHECK_NOTHROW(require_defined_scratch(OpKind::conv2d, true));
  CHECK_NOTHROW(require_defined_scratch(OpKind::add, false));
}
