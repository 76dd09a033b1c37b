#include "engine/cpu/cpu_device.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/op_cases/op_case.h"

namespace trainer {

TEST_CASE("the CPU device names itself, its threads and its library") {
  CHECK(make_cpu_device(1)->kind() == "cpu");
  CHECK_THAT(make_cpu_device(1)->name(), Catch::EndsWith(", 1 thread"));
  CHECK_THAT(make_cpu_device(3)->name(), Catch::EndsWith(", 3 threads"));
  CHECK_THAT(make_cpu_device(0)->name(), Catch::Contains("thread"));
  CHECK_THAT(cpu_library_version(), Catch::StartsWith("oneDNN "));
}

TEST_CASE("the CPU device hands out host memory up to the capacity and counts the process's memory") {
  const auto device = make_cpu_device(1);
  constexpr std::int64_t size = std::int64_t{64} << 20;
  const auto source = device->make_memory_source(size);
  CHECK(source->capacity() == size);
  const std::int64_t before = device->used_bytes();
  void* const memory = source->acquire(size);
  REQUIRE(memory != nullptr);
  CHECK(source->acquire(512) == nullptr);
  device->fill_zero(memory, size);
  CHECK(device->used_bytes() - before > size / 2);
  source->release(memory, size);
  CHECK(device->used_bytes() - before < size / 2);
  CHECK(device->available_bytes() > 0);
  CHECK(device->total_bytes() >= device->available_bytes());
}

TEST_CASE("copies to and from the CPU device keep their bytes") {
  const auto device = make_cpu_device(1);
  const std::vector<int> from = {1, 2, 3};
  std::vector<int> middle(3), to(3);
  device->copy_to_device(middle.data(), from.data(), 12);
  device->copy_to_host(to.data(), middle.data(), 12);
  device->synchronize();
  CHECK(to == from);
  device->fill_zero(to.data(), 8);
  CHECK(to == std::vector<int>{0, 0, 3});
  device->copy_to_host(nullptr, nullptr, 0);
}

TEST_CASE("a strided 1×1 convolution's weight gradient has the same bits however two threads meet") {
  const auto device = make_cpu_device(2);
  const TensorType x{DType::f32, {6, 8, 8, 6}};
  const Op forward = conv2d_op(x, {.out = 10, .kernel = {1, 1}, .stride = {2, 2}, .bias = false});
  OpCase gradient{.name = "strided", .op = conv2d_backward_weight_op(forward), .inputs = {}, .expected = {}};
  for (const TensorType& type : gradient.op.inputs)
    gradient.inputs.push_back(random_values(type, static_cast<int>(gradient.inputs.size()) + 1));
  const OpResult first = run_op(*device, gradient, std::byte{0xFF});
  int num_others = 0;
  for (int run = 0; run < 500; ++run) num_others += run_op(*device, gradient, std::byte{0xFF}) == first ? 0 : 1;
  CHECK(num_others == 0);
}

TEST_CASE("ops of the same kind and different shapes or attributes have kernels of their own") {
  const auto device = make_cpu_device(1);
  const TensorType x{DType::f32, {2, 3}};
  const Kernel& relu = device->prepare(activation_op(x, {.function = Activation::relu}));
  CHECK(&device->prepare(activation_op(x, {.function = Activation::tanh})) != &relu);
  CHECK(&device->prepare(activation_op({DType::f32, {3, 2}}, {.function = Activation::relu})) != &relu);
  CHECK(&device->prepare(activation_op(x, {.function = Activation::relu})) == &relu);
}

TEST_CASE("a target beyond the model's classes is an internal error that tells both") {
  const auto device = make_cpu_device(1);
  const TensorType logits{DType::f32, {2, 3}};
  const TensorType targets{DType::i32, {2}};
  for (const double target : {-1.0, 3.0}) {
    const OpCase c{"", cross_entropy_op(logits, targets, {}), {Values(6), {0, target}, Values(5)}, {}};
    CHECK_THROWS_AS(run_op(*device, c, std::byte{0}), InternalError);
    const OpCase backward{"", cross_entropy_backward_op(c.op), {Values(6), {0, target}}, {}};
    CHECK_THROWS_WITH(run_op(*device, backward, std::byte{0}), Catch::Contains("classes 0 to 2"));
    const OpCase both{"", cross_entropy_with_gradient_op(c.op), c.inputs, {}};
    CHECK_THROWS_WITH(run_op(*device, both, std::byte{0}), Catch::Contains("classes 0 to 2"));
  }
}

TEST_CASE("dropout keeps 1 - p of many numbers, others in every pass and stream, and the same in backward") {
  const auto device = make_cpu_device(2);
  const TensorType type{DType::f32, {100, 1000}};
  const Values ones(100000, 1);
  const auto run = [&](const Op& op, StepScalars scalars) {
    return to_values(type, run_op(*device, {"", op, {ones}, {}, scalars}, std::byte{0}).outputs[0]);
  };
  const Op op = dropout_op(type, {.p = 0.3, .stream = 1});
  const Values mask = run(op, {.seed = 7, .pass = 1});
  double kept = 0;
  for (const double value : mask) kept += value > 0 ? 1 : 0;
  CHECK(kept / 100000 == Approx(0.7).margin(4 * std::sqrt(0.21 / 100000)));
  CHECK(run(dropout_backward_op(op), {.seed = 7, .pass = 1}) == mask);
  CHECK(run(op, {.seed = 7, .pass = 2}) != mask);
  CHECK(run(op, {.seed = 8, .pass = 1}) != mask);
  CHECK(run(dropout_op(type, {.p = 0.3, .stream = 2}), {.seed = 7, .pass = 1}) != mask);
}

TEST_CASE("NaN passes through every activation, through pooling and through a loss") {
  const auto device = make_cpu_device(1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const TensorType type{DType::f32, {1, 4, 4, 1}};
  Values x(16, -1);
  x[5] = nan;
  const auto has_nan = [&](const Op& op) {
    const auto result = run_op(*device, {"", op, {x}, {}}, std::byte{0});
    for (const double value : to_values(op.outputs[0], result.outputs[0]))
      if (std::isnan(value)) return true;
    return false;
  };
  for (const auto f : {Activation::relu, Activation::gelu, Activation::silu, Activation::tanh, Activation::sigmoid})
    CHECK(has_nan(activation_op(type, {.function = f})));
  CHECK(has_nan(activation_op(type, {Activation::gelu, GeluApproximation::tanh})));
  CHECK(has_nan(maxpool2d_op(type, {})));
  CHECK(has_nan(avgpool2d_op(type, {})));

  const TensorType logits{DType::f32, {1, 3}};
  const OpCase loss{"", cross_entropy_op(logits, {DType::i32, {1}}, {}), {{0, nan, 1}, {2}, Values(5)}, {}};
  const Values statistics = to_values({DType::f64, {5}}, run_op(*device, loss, std::byte{0}).inputs[2]);
  CHECK(std::isnan(statistics[loss_sum]));
  CHECK(statistics[num_correct] == 0);
}

TEST_CASE("NaN in the input of a fused relu is still there behind it") {
  const auto device = make_cpu_device(1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto first_is_nan = [&](const Op& op) {
    OpCase c{"", op, {}, {}};
    for (const TensorType& type : op.inputs) c.inputs.push_back(random_values(type, 1, 0.5, 1));
    c.inputs[0][0] = nan;
    return std::isnan(to_values(op.outputs[0], run_op(*device, c, std::byte{0}).outputs[0])[0]);
  };
  CHECK(first_is_nan(linear_op({DType::f32, {3, 17}}, {.out = 19, .relu = true})));
  CHECK(first_is_nan(
      conv2d_op({DType::f32, {1, 4, 4, 16}}, {.out = 16, .kernel = {3, 3}, .padding = {1, 1}, .relu = true})));
  CHECK(first_is_nan(
      conv2d_op({DType::f32, {1, 4, 4, 1}}, {.out = 16, .kernel = {3, 3}, .padding = {1, 1}, .relu = true})));
  CHECK(first_is_nan(batchnorm2d_op({DType::f32, {2, 2, 2, 3}}, {.relu = true})));
  CHECK(first_is_nan(add_op({DType::f32, {2, 2}}, {.relu = true})));
}

TEST_CASE("clipping tells a gradient norm that is not finite") {
  const auto device = make_cpu_device(1);
  const std::vector<TensorType> types = {{DType::f32, {3}}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const OpCase c{"", gradient_factor_op(types, {.clip_norm = 1}), {{1, nan, 2}}, {}};
  const Values result = to_values({DType::f32, {num_gradient_factors}}, run_op(*device, c, std::byte{0}).outputs[0]);
  CHECK(std::isnan(result[gradient_norm_value]));
  CHECK(std::isnan(result[gradient_multiplier]));
  CHECK(result[gradients_finite] == 0);
}

}  // namespace trainer
