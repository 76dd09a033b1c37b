#include <catch2/catch.hpp>
#include <utility>

#include "tests/cuda/batchnorm2d_calls.h"

namespace trainer::cuda {
namespace {

using namespace batchnorm2d_calls;

enum class Alias { none, first, second };

/// y where `addend` is added before ReLU.
Numbers with_addend(Case c, const Operands& o, const Statistics& s, const Numbers& addend) {
  const bool relu = std::exchange(c.relu, false);
  Numbers y = normalized(c, o, s);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += addend[i];
    if (relu && y[i] < 0) y[i] = 0;
  }
  return y;
}

struct AddedTo {
  KernelTensor y, again, inferred, mean, rstd;
};
/// The three passes over x and an addend; y is a tensor of its own, x (first) or the addend (second).
AddedTo run_with_addend(const Case& c, const Operands& o, const Numbers& addend, Alias alias) {
  const std::int64_t channels = c.shape.channels;
  AddedTo r{KernelTensor(c.type, num_elements(c.shape)), KernelTensor(c.type, num_elements(c.shape)),
            KernelTensor(c.type, num_elements(c.shape)), KernelTensor(DType::f32, channels),
            KernelTensor(DType::f32, channels)};
  const KernelTensor running_mean(DType::f32, o.running_mean.values()), running_var(DType::f32, o.running_var.values());
  std::vector<std::byte> workspace(at(batchnorm2d_forward_workspace_bytes(c.shape)), std::byte{0xFF});
  const float* const weight = c.affine ? o.weight.data<float>() : nullptr;
  const float* const bias = c.affine ? o.bias.data<float>() : nullptr;
  const auto run = [&](KernelTensor& y, auto&& pass) {
    const KernelTensor added(c.type, addend);
    if (alias == Alias::first) y = KernelTensor(c.type, o.x.values());
    if (alias == Alias::second) y = KernelTensor(c.type, addend);
    pass(alias == Alias::first ? y.data() : o.x.data(), y.data(), alias == Alias::second ? y.data() : added.data());
  };
  run(r.y, [&](const void* x, void* y, const void* added) {
    batchnorm2d_forward(c.type,
                        {.x = x,
                         .y = y,
                         .addend = added,
                         .running_mean = running_mean.data<float>(),
                         .running_var = running_var.data<float>(),
                         .weight = weight,
                         .bias = bias,
                         .mean = r.mean.data<float>(),
                         .rstd = r.rstd.data<float>(),
                         .workspace = workspace.data(),
                         .eps = c.eps,
                         .momentum = c.momentum,
                         .relu = c.relu},
                        c.shape, nullptr);
  });
  run(r.again, [&](const void* x, void* y, const void* added) {
    batchnorm2d_normalize(c.type,
                          {.x = x,
                           .y = y,
                           .addend = added,
                           .mean = r.mean.data<float>(),
                           .rstd = r.rstd.data<float>(),
                           .weight = weight,
                           .bias = bias,
                           .relu = c.relu},
                          c.shape, nullptr);
  });
  run(r.inferred, [&](const void* x, void* y, const void* added) {
    batchnorm2d_inference(c.type,
                          {.x = x,
                           .y = y,
                           .addend = added,
                           .running_mean = o.running_mean.data<float>(),
                           .running_var = o.running_var.data<float>(),
                           .weight = weight,
                           .bias = bias,
                           .eps = c.eps,
                           .relu = c.relu},
                          c.shape, nullptr);
  });
  return r;
}

TEST_CASE("batch norm takes an addend before ReLU, in training, made anew and in evaluation, over either operand") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      const bool relu = shape.rows % 2 == 1;
      const Case c{.shape = shape, .type = type, .affine = shape.channels % 2 == 0, .relu = relu};
      INFO(shape.rows << " rows, " << shape.channels << " channels, " << name_of(type) << (relu ? ", relu" : ""));
      const Operands o(c);
      const Numbers addend = KernelTensor(type, random_numbers(num_elements(shape), 11)).values();
      const AddedTo r = run_with_addend(c, o, addend, Alias::none);
      const Numbers expected = with_addend(c, o, statistics_of(shape, o.x.values()), addend);
      CHECK(difference(r.y.values(), expected) < tolerance_of(type));
      CHECK(r.again == r.y);
      const Statistics running{o.running_mean.values(), o.running_var.values()};
      CHECK(difference(r.inferred.values(), with_addend(c, o, running, addend)) < tolerance_of(type));
      for (const Alias alias : {Alias::first, Alias::second}) {
        const AddedTo in_place = run_with_addend(c, o, addend, alias);
        CHECK(in_place.y == r.y);
        CHECK(in_place.again == r.y);
        CHECK(in_place.inferred == r.inferred);
      }
    }
  }
}

TEST_CASE("an addend that is not aligned, or holds a NaN, is added all the same") {
  const Case c{.shape = {1100, 16}, .relu = true};
  const Operands o(c);
  Numbers addend = random_numbers(num_elements(c.shape), 11);
  addend[37] = NAN;
  const KernelTensor added(DType::f32, addend, 1), y(DType::f32, num_elements(c.shape));
  batchnorm2d_inference(c.type,
                        {.x = o.x.data(),
                         .y = y.data(),
                         .addend = added.data(),
                         .running_mean = o.running_mean.data<float>(),
                         .running_var = o.running_var.data<float>(),
                         .weight = o.weight.data<float>(),
                         .bias = o.bias.data<float>(),
                         .eps = c.eps,
                         .relu = true},
                        c.shape, nullptr);
  const Numbers expected = with_addend(c, o, {o.running_mean.values(), o.running_var.values()}, added.values());
  CHECK(std::isnan(y.values()[37]));
  CHECK(difference(y.values(), expected) < tolerance_of(c.type));
}

struct SplitGradients {
  KernelTensor dx, daddend, dweight, dbias;
  friend bool operator==(const SplitGradients&, const SplitGradients&) = default;
};
enum class GradientPlaces { apart, dx_over_dy, daddend_over_dy, both_over_inputs };

/// Of a batch norm with an addend; with both over inputs dx is where y is, and daddend where dy is.
SplitGradients run_backward_with_addend(const Case& c, const Operands& o, const Numbers& dy, const AddedTo& forward,
                                        int poison, GradientPlaces places) {
  using enum GradientPlaces;
  const KernelTensor apart_dy(c.type, dy), apart_y(c.type, forward.y.values());
  const bool dx_is_y = places == both_over_inputs;
  SplitGradients g{KernelTensor(c.type, dx_is_y ? forward.y.values() : dy), KernelTensor(c.type, dy),
                   KernelTensor(DType::f32, c.shape.channels), KernelTensor(DType::f32, c.shape.channels)};
  std::vector<std::byte> workspace(at(batchnorm2d_backward_workspace_bytes(c.shape)), static_cast<std::byte>(poison));
  const void* const from = places == apart ? apart_dy.data() : places == dx_over_dy ? g.dx.data() : g.daddend.data();
  batchnorm2d_backward(c.type,
                       {.dy = from,
                        .x = o.x.data(),
                        .mean = forward.mean.data<float>(),
                        .rstd = forward.rstd.data<float>(),
                        .weight = o.weight.data<float>(),
                        .y = dx_is_y ? g.dx.data() : apart_y.data(),
                        .dx = g.dx.data(),
                        .daddend = g.daddend.data(),
                        .dweight = g.dweight.data<float>(),
                        .dbias = g.dbias.data<float>(),
                        .workspace = workspace.data(),
                        .relu = c.relu},
                       c.shape, nullptr);
  return g;
}

TEST_CASE("the gradients of batch norm with an addend pass where the output says, to both operands") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      const bool relu = shape.rows % 2 == 1;
      const Case c{.shape = shape, .type = type, .relu = relu};
      INFO(shape.rows << " rows, " << shape.channels << " channels, " << name_of(type) << (relu ? ", relu" : ""));
      const Operands o(c, 0.5);
      const Numbers addend = random_numbers(num_elements(shape), 11);
      const Numbers dy = KernelTensor(type, random_numbers(num_elements(shape), 9)).values();
      const AddedTo forward = run_with_addend(c, o, addend, Alias::none);
      using enum GradientPlaces;
      const SplitGradients g = run_backward_with_addend(c, o, dy, forward, 0xFF, apart);
      CHECK(run_backward_with_addend(c, o, dy, forward, 0x3D, apart) == g);
      for (const GradientPlaces places : {dx_over_dy, daddend_over_dy, both_over_inputs}) {
        CHECK(run_backward_with_addend(c, o, dy, forward, 0xFF, places) == g);
      }

      const Numbers y = forward.y.values();
      Numbers masked = dy;
      for (std::size_t i = 0; i < masked.size(); ++i) {
        if (relu && !(y[i] > 0)) masked[i] = 0;
      }
      CHECK(g.daddend.values() == masked);
      // What reaches x is what a batch norm without ReLU passes of it, whose own test knows the numbers.
      const Case plain{.shape = shape, .type = type};
      const Gradients expected = run_backward(plain, o, KernelTensor(type, masked), run_forward(plain, o), 0xFF, false);
      CHECK(g.dx == expected.dx);
      CHECK(g.dweight == expected.dweight);
      CHECK(g.dbias == expected.dbias);
    }
  }
}

}  // namespace
}  // namespace trainer::cuda
