#include "engine/cpu/slicing.h"
#include "engine/cpu/kernels.h"

#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/op_cases/op_checks.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// Ops that are cut into several slices, the last one shorter for most.
std::vector<Op> sliced_ops(DType type) {
  std::vector<Op> ops;
  const auto add = [&](const Op& op) { ops.push_back(op); };
  for (const Shape& shape : {Shape{4099, 67}, Shape{3, 1367, 67}}) {
    const Op linear = linear_op({type, shape}, {.out = 131});
    const Op relu = linear_op({type, shape}, {.out = 131, .relu = true, .keeps = true});
    add(linear);
    add(relu);
    add(linear_backward_input_op(linear));
    add(linear_backward_input_op(linear_op(relu.outputs[0], {.out = 67}), relu));
    add(linear_backward_weight_op(linear));
  }
  const TensorType image{type, {5, 33, 31, 48}};
  const Op conv2d = conv2d_op(image, {.out = 40, .kernel = {3, 3}, .padding = {1, 1}});
  add(conv2d);
  add(conv2d_backward_input_op(conv2d));
  add(conv2d_backward_weight_op(conv2d));
  const TensorType images{type, {7, 65, 67, 32}};
  const Op maxpool2d = maxpool2d_op(images, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  add(maxpool2d);
  add(maxpool2d_backward_op(maxpool2d));
  const Op avgpool2d = avgpool2d_op(images, {});
  add(avgpool2d);
  add(avgpool2d_backward_op(avgpool2d));
  const Op adaptive_avgpool2d = adaptive_avgpool2d_op(images, {7, 9});
  add(adaptive_avgpool2d);
  add(adaptive_avgpool2d_backward_op(adaptive_avgpool2d));
  const Op transposed = conv_transpose2d_op(images, {.out = 8, .kernel = {2, 2}, .stride = {2, 2}});
  add(transposed);
  add(conv_transpose2d_backward_weight_op(transposed));
  const Op upsample = upsample_op(images, {.mode = Interpolation::bilinear, .scale = {2, 1}}, {});
  add(upsample);
  add(upsample_backward_op(upsample));
  const Op pad = pad_op(images, {.size = {1, 2, 3, 4}, .mode = PadMode::reflect});
  add(pad);
  add(pad_backward_op(pad));
  add(global_avgpool_op(images));
  add(global_avgpool_backward_op(global_avgpool_op(images)));
  add(flatten_op(images));
  add(flatten_backward_op(flatten_op(images)));
  for (const Shape& shape : {Shape{3001, 257}, Shape{3, 1001, 257}}) {
    const Op layernorm = layernorm_op({type, shape}, {});
    add(layernorm);
    add(layernorm_backward_op(layernorm));
  }
  return ops;
}

OpCase drawn(const Op& op) {
  OpCase c{std::string(name_of(op.kind)) + " " + op.inputs[0].to_string(), op, {}, {}};
  for (const TensorType& type : op.inputs) {
    c.inputs.push_back(random_values(type, 1 + static_cast<int>(c.inputs.size()), 0.1, 1));
    for (double& value : c.inputs.back()) {
      // Any bits of a mask; the centre of a pooling window.
      if (type.dtype == DType::u8) value = op.kind == OpKind::maxpool2d_backward ? 4 : static_cast<int>(value * 256);
      if (rounding_of(type.dtype) > 0) value = round_to(type.dtype, value - 0.55);
    }
  }
  return c;
}

OpCase widened(OpCase c) {
  for (auto* operands : {&c.op.inputs, &c.op.outputs})
    for (TensorType& type : *operands)
      if (rounding_of(type.dtype) > 0) type.dtype = DType::f32;
  return c;
}

}  // namespace

TEST_CASE("an op that goes slice by slice computes what its f32 kernel computes at once") {
  const auto device = make_cpu_device(2);
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const Op& op : sliced_ops(type)) {
      const OpCase narrow = drawn(op), wide = widened(narrow);
      INFO(narrow.name);
      CHECK(slices_of(op, cut_of(op).value()).num_slices() >= 3);
      const OpResult actual = run_op(*device, narrow, std::byte{0xFF});
      const OpResult expected = run_op(*device, wide, std::byte{0xFF});
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        check_close(to_values(op.outputs[i], actual.outputs[i]), to_values(wide.op.outputs[i], expected.outputs[i]),
                    1e-4, "output " + std::to_string(i), rounding_of(op.outputs[i].dtype));
    }
  }
}

TEST_CASE("slices cover all rows, the last one with what is left") {
  for (const Op& op : sliced_ops(DType::bf16)) {
    const Slicing slicing = slices_of(op, cut_of(op).value());
    INFO(name_of(op.kind) << ": " << slicing.num_rows << " rows by " << slicing.slice_rows);
    CHECK((slicing.num_slices() - 1) * slicing.slice_rows + slicing.last_rows() == slicing.num_rows);
    CHECK(slicing.last_rows() >= 1);
    CHECK(slicing.last_rows() <= slicing.slice_rows);
    CHECK(slicing.inputs.size() == op.inputs.size());
    CHECK(slicing.outputs.size() == op.outputs.size());
  }
}

TEST_CASE("what 16 bit needs of scratch is a slice and the weights in f32, and nothing for elements") {
  const auto device = make_cpu_device(2);
  const TensorType x{DType::bf16, {64, 32, 32, 64}};  // 16 MiB in f32
  const auto scratch = [&](const Op& op) { return device->workspace_bytes(op); };
  CHECK(scratch(activation_op(x, {})) == 0);
  CHECK(scratch(activation_backward_op(x, {})) == 0);
  CHECK(scratch(add_op(x)) == 0);
  CHECK(scratch(dropout_op(x, {})) == 0);
  CHECK(scratch(batchnorm2d_op(x, {})) < mebibyte);
  CHECK(scratch(batchnorm2d_backward_op(batchnorm2d_op(x, {}))) < mebibyte);
  CHECK(scratch(maxpool2d_op(x, {})) <= mebibyte);
  CHECK(scratch(maxpool2d_backward_op(maxpool2d_op(x, {}))) <= mebibyte);
  CHECK(scratch(global_avgpool_op(x)) <= mebibyte);
  const TensorType rows{DType::bf16, {8192, 512}};
  CHECK(scratch(layernorm_op(rows, {})) <= mebibyte);
  CHECK(scratch(layernorm_backward_op(layernorm_op(rows, {}))) <= 2 * mebibyte);
  const Op linear = linear_op(rows, {.out = 256});
  const std::int64_t weight_bytes = 2 * linear.inputs[1].num_bytes();  // in f32
  CHECK(scratch(linear) <= weight_bytes + 2 * mebibyte);
  CHECK(scratch(linear_backward_input_op(linear)) <= weight_bytes + 2 * mebibyte);
  CHECK(scratch(linear_backward_weight_op(linear)) <= weight_bytes + 2 * mebibyte);
}

}  // namespace trainer
