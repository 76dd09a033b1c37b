#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "cuda/model/bounded_planner.h"
#include "cuda/ops/conv2d_call.h"
#include "cuda/ops/kernels.h"
#include "engine/cpu/cpu_device.h"
#include "tests/cuda/host_convolution.h"
#include "tests/op_cases/op_case.h"

namespace trainer::cuda {

namespace {

class HostConvolutionLibrary final : public Library {
 public:
  std::unique_ptr<Matmul> prepare(const MatmulCall&) override { throw InternalError("no products here"); }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override { return make_host_convolution(call); }
  ConvolutionPlanner& convolution_planner() override { return planner_; }

 private:
  HostConvolutionPlanner planner_;
};

/// As the device runs it: a workspace of what was planned, at an address that a 512-byte block may have, full of
/// whatever was there before.
std::vector<Values> run_on_host(const OpCase& op_case) {
  HostConvolutionLibrary library;
  CudaContext context{.stream = nullptr, .scalars = nullptr, .library = &library, .tf32 = false};
  const Op& op = op_case.op;
  std::vector<std::vector<std::byte>> operands;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) operands.push_back(to_bytes(op.inputs[i], op_case.inputs[i]));
  for (const TensorType& output : op.outputs)
    operands.emplace_back(static_cast<std::size_t>(output.num_bytes()), std::byte{0xFF});
  std::vector<void*> addresses;
  for (auto& operand : operands) addresses.push_back(operand.data());
  const std::span<void* const> all(addresses);

  const std::int64_t workspace_bytes =
      compute_workspace_bytes(op, {.convolutions = &library.convolution_planner(), .tf32 = false});
  constexpr std::byte guard{0x77};
  std::vector<std::byte> workspace(static_cast<std::size_t>(workspace_bytes) + 16, guard);
  std::fill_n(workspace.begin(), workspace_bytes, std::byte{0xFF});
  make_kernel_of(op, context)->run({all.first(op.inputs.size()), all.subspan(op.inputs.size()), workspace.data()});
  for (std::size_t i = static_cast<std::size_t>(workspace_bytes); i < workspace.size(); ++i)
    CHECK(workspace[i] == guard);

  std::vector<Values> results;
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    results.push_back(to_values(op.outputs[i], operands[op.inputs.size() + i]));
  return results;
}

void check_as_on_cpu(const Op& op) {
  OpCase op_case{.name = "", .op = op, .inputs = {}, .expected = {}};
  for (const TensorType& input : op.inputs)
    op_case.inputs.push_back(random_values(input, 1 + static_cast<int>(op_case.inputs.size())));
  const auto cpu = make_cpu_device(1);
  const OpResult expected = run_op(*cpu, op_case, std::byte{0xFF});
  const std::vector<Values> actual = run_on_host(op_case);
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Values values = to_values(op.outputs[i], expected.outputs[i]);
    for (std::size_t j = 0; j < values.size(); ++j) {
      INFO(name_of(op.kind) << ", element " << j << " of output " << i);
      // The CPU adds up in f32: its error grows with the number of products.
      REQUIRE(std::fabs(actual[i][j] - values[j]) <= 3e-5 * (1 + std::fabs(values[j])));
    }
  }
}

struct Convolution2d {
  Shape x;
  Conv2dAttributes attributes;
};

Op op_of(const Convolution2d& c) { return conv2d_op({DType::f32, c.x}, c.attributes); }

const std::vector<Convolution2d>& all_convolutions() {
  static const std::vector<Convolution2d> convolutions = {
      {{1, 1, 1, 1}, {.out = 1}},
      {{1, 1, 1, 1}, {.out = 1, .bias = false, .relu = true}},
      {{3, 7, 5, 1}, {.out = 1, .kernel = {3, 3}, .padding = {1, 1}}},
      {{2, 11, 13, 7}, {.out = 5, .kernel = {3, 3}, .padding = {1, 1}, .relu = true}},
      {{2, 11, 13, 3}, {.out = 17, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}, .bias = false}},
      {{2, 9, 9, 33}, {.out = 34, .kernel = {3, 3}, .padding = {1, 1}, .bias = false, .relu = true}},
      {{1, 9, 8, 4}, {.out = 3, .kernel = {3, 3}, .padding = {2, 3}, .dilation = {2, 3}, .relu = true}},
      {{1, 8, 6, 2}, {.out = 3, .kernel = {3, 2}, .stride = {2, 3}, .padding = {0, 1}}},
      {{2, 5, 5, 16}, {.out = 32, .stride = {2, 2}, .relu = true}},
      {{2, 4, 5, 6}, {.out = 4, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2}},
      {{2, 6, 5, 15}, {.out = 9, .kernel = {1, 3}, .padding = {0, 1}, .groups = 3, .bias = false}},
      {{2, 5, 5, 7}, {.out = 7, .kernel = {3, 3}, .padding = {1, 1}, .groups = 7, .relu = true}},
      {{2, 5, 5, 4}, {.out = 8, .kernel = {5, 5}, .padding = {2, 2}, .groups = 4}},
      {{3, 21, 19, 40},
       {.out = 40, .kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 1}, .groups = 40, .bias = false, .relu = true}},
      // Rows enough for the bias gradient to add up in parts.
      {{5, 31, 29, 3}, {.out = 2, .kernel = {3, 3}, .padding = {1, 1}}},
  };
  return convolutions;
}

const Convolution2d& with_bias_and_relu() { return all_convolutions()[3]; }

TEST_CASE("a convolution that the library is asked for, with the kernels around it, is the CPU's in every direction") {
  for (const Convolution2d& c : all_convolutions()) {
    const Op op = op_of(c);
    INFO(op.inputs[0].to_string() << " to " << op.outputs[0].to_string() << ", groups " << c.attributes.groups);
    check_as_on_cpu(op);
    check_as_on_cpu(conv2d_backward_input_op(op));
    check_as_on_cpu(conv2d_backward_weight_op(op));
  }
}

TEST_CASE("the parts of a convolution's workspace start at multiples of 512 bytes and do not overlap") {
  for (const std::int64_t library_bytes : {0, 1, 512, 1000}) {
    const Op op = conv2d_backward_weight_op(op_of(all_convolutions().back()));
    const Conv2dWorkspace workspace = conv2d_workspace(op, library_bytes);
    CHECK(workspace.bias_gradient % 512 == 0);
    CHECK(workspace.bias_gradient >= library_bytes);
    CHECK(workspace.bias_gradient < library_bytes + 512);
    CHECK(workspace.num_bytes > workspace.bias_gradient);
  }
}

TEST_CASE("a convolution's workspace is the library's alone, but for the gradient of a bias over many rows") {
  for (const Convolution2d& c : all_convolutions()) {
    const Op op = op_of(c);
    INFO(op.inputs[0].to_string() << " to " << op.outputs[0].to_string() << ", groups " << c.attributes.groups);
    const bool has_many_rows = &c == &all_convolutions().back();
    for (const std::int64_t library_bytes : {0, 100}) {
      CHECK(conv2d_workspace(op, library_bytes).num_bytes == library_bytes);
      CHECK(conv2d_workspace(conv2d_backward_input_op(op), library_bytes).num_bytes == library_bytes);
      if (!has_many_rows)
        CHECK(conv2d_workspace(conv2d_backward_weight_op(op), library_bytes).num_bytes == library_bytes);
    }
  }
}

TEST_CASE(
    "a convolution of single channels is computed by own kernels, whose scratch is that of the weights' gradient") {
  class AskedInVain final : public ConvolutionPlanner {
   public:
    std::int64_t workspace_bytes(const ConvolutionCall&) override { throw DeviceError("asked for a convolution"); }
  };
  AskedInVain planner;
  const auto bytes_of = [&](const Op& op) {
    return compute_workspace_bytes(op, {.convolutions = &planner, .tf32 = false});
  };
  Conv2dAttributes attributes{.out = 24, .kernel = {3, 3}, .padding = {1, 1}, .groups = 24, .bias = false};
  const TensorType x{DType::f16, {2, 40, 30, 24}};
  const Op op = conv2d_op(x, attributes);
  CHECK(bytes_of(op) == 0);
  CHECK(bytes_of(conv2d_backward_input_op(op)) == 0);
  // 2400 pixels in parts of 256, the 9 weights of 24 channels in f32.
  CHECK(bytes_of(conv2d_backward_weight_op(op)) == 10 * 9 * 24 * 4);
  CHECK_FALSE(conv2d_statistics_pay(op, {.convolutions = &planner, .tf32 = false}));
  const Op transposed = conv_transpose2d_op(x, {.out = 24, .kernel = {2, 2}, .stride = {2, 2}, .groups = 24});
  CHECK(bytes_of(transposed) == 0);

  attributes.out = 48;
  CHECK(depthwise_shape_of(conv2d_op(x, attributes))->multiplier == 2);
  attributes.kernel = {3, 6};
  CHECK_THROWS_AS(bytes_of(conv2d_op(x, attributes)), DeviceError);
  attributes = {.out = 24, .kernel = {3, 3}, .groups = 12, .bias = false};
  CHECK_THROWS_AS(bytes_of(conv2d_op(x, attributes)), DeviceError);
  // More pixels than 31 bits count, as far as a kernel reaches.
  const DepthwiseShape shape{.images = 1 << 20, .channels = 8, .x = {64, 27}, .y = {64, 27}, .kernel = {3, 3}};
  CHECK(depthwise_conv2d_serves(shape));
  DepthwiseShape larger = shape;
  larger.x[1] = 28;
  CHECK_FALSE(depthwise_conv2d_serves(larger));
}

TEST_CASE("the library is asked for a ReLU only behind a bias, and for TF32 only where it is allowed") {
  Convolution2d c = with_bias_and_relu();
  ConvolutionCall call = convolution_call(op_of(c), false);
  CHECK((call.bias && call.relu && !call.tf32));
  CHECK(convolution_call(op_of(c), true).tf32);
  call = convolution_call(conv2d_backward_input_op(op_of(c)), false);
  CHECK((!call.bias && !call.relu));
  c.attributes.bias = false;
  call = convolution_call(op_of(c), false);
  CHECK((!call.bias && !call.relu));
}

TEST_CASE("the ops of one convolution agree on its images and differ in direction") {
  const Op op = op_of(with_bias_and_relu());
  const ConvolutionCall forward = convolution_call(op, false);
  ConvolutionCall input = convolution_call(conv2d_backward_input_op(op), false);
  CHECK(input.direction == ConvolutionDirection::input_gradient);
  CHECK((input.x == forward.x && input.y == forward.y));
  ConvolutionCall weight = convolution_call(conv2d_backward_weight_op(op), false);
  CHECK(weight.direction == ConvolutionDirection::weight_gradient);
  input.direction = weight.direction;
  CHECK(input == weight);
}

TEST_CASE("where cuDNN cannot be asked a convolution's scratch is taken for memory.workspace_limit") {
  BoundedConvolutionPlanner planner;
  Convolution2d c = with_bias_and_relu();
  c.attributes.workspace_limit = 4096;
  const Op op = op_of(c);
  CHECK(compute_workspace_bytes(op, {.convolutions = &planner, .tf32 = false}) == 4096);
}

TEST_CASE("the interpreter refuses a convolution without an operand, and one given in vain") {
  const ConvolutionCall call{.x = {1, 1, 1, 1}, .y = {1, 1, 1, 1}};
  float x = 2, weights = 3, y = 0;
  const auto convolution = make_host_convolution(call);
  convolution->run({.x = &x, .weights = &weights, .y = &y}, nullptr);
  CHECK(y == 6);
  CHECK_THROWS_AS(convolution->run({.x = &x, .y = &y}, nullptr), InternalError);
  CHECK_THROWS_AS(convolution->run({.x = &x, .weights = &weights, .bias = &x, .y = &y}, nullptr), InternalError);
}

}  // namespace

}  // namespace trainer::cuda
