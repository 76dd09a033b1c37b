#pragma once
// Calls of batch norm's launchers over operands of their own, and what they must give in f64.

#include <cmath>
#include <vector>

#include "cuda/kernels/batchnorm2d.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda::batchnorm2d_calls {

using Numbers = std::vector<double>;

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Case {
  BatchNorm2dShape shape;
  DType type = DType::f32;
  bool affine = true, relu = false;
  float ceiling = no_ceiling;
  double eps = 1e-5, momentum = 0.1;
};

// One launch and three; one part and many, past the 32 that are combined at once; whole packs and not; channels below,
// at and past a block's.
inline constexpr BatchNorm2dShape shapes[] = {{1, 1},    {1, 33},   {2, 5},     {7, 3},     {131, 8},    {1024, 8},
                                              {37, 260}, {1025, 8}, {1031, 33}, {1031, 64}, {2115, 132}, {8209, 1}};

inline std::int64_t num_elements(const BatchNorm2dShape& shape) { return shape.rows * shape.channels; }

struct Statistics {
  Numbers mean, variance;
};
inline Statistics statistics_of(const BatchNorm2dShape& shape, const Numbers& x) {
  Statistics s{Numbers(at(shape.channels)), Numbers(at(shape.channels))};
  const auto rows = static_cast<double>(shape.rows);
  for (std::size_t i = 0; i < x.size(); ++i) s.mean[i % at(shape.channels)] += x[i] / rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % at(shape.channels);
    s.variance[c] += (x[i] - s.mean[c]) * (x[i] - s.mean[c]) / rows;
  }
  return s;
}

struct Operands {
  KernelTensor x, weight, bias, running_mean, running_var;
  explicit Operands(const Case& c, double offset = 0, double spread = 1, std::int64_t num_skipped = 0)
      : x(c.type, random_numbers(num_elements(c.shape), 1, offset - spread, offset + spread), num_skipped),
        weight(DType::f32, random_numbers(c.shape.channels, 2, -1.5, 1.5)),
        bias(DType::f32, random_numbers(c.shape.channels, 3)),
        running_mean(DType::f32, random_numbers(c.shape.channels, 4)),
        running_var(DType::f32, random_numbers(c.shape.channels, 5, 0.5, 2)) {}
};

inline Numbers normalized(const Case& c, const Operands& o, const Statistics& s) {
  const Numbers x = o.x.values(), weight = o.weight.values(), bias = o.bias.values();
  Numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t channel = i % at(c.shape.channels);
    double value = (x[i] - s.mean[channel]) / std::sqrt(s.variance[channel] + c.eps);
    if (c.affine) value = value * weight[channel] + bias[channel];
    if (value > static_cast<double>(c.ceiling)) value = static_cast<double>(c.ceiling);
    y.push_back(c.relu && value < 0 ? 0 : value);
  }
  return y;
}

struct Result {
  KernelTensor y, mean, rstd, running_mean, running_var;
  friend bool operator==(const Result&, const Result&) = default;
};
/// Σx and Σx², as a convolution may have made them.
struct Sums {
  KernelTensor of_x, of_squares;
};
inline Sums sums_of(const BatchNorm2dShape& shape, const Numbers& x) {
  Numbers sums(at(shape.channels)), squares(at(shape.channels));
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums[i % sums.size()] += x[i];
    squares[i % sums.size()] += x[i] * x[i];
  }
  return {KernelTensor(DType::f32, sums), KernelTensor(DType::f32, squares)};
}

inline Result run_forward(const Case& c, const Operands& o, int poison = 0xFF, bool in_place = false,
                          const Sums* sums = nullptr) {
  const std::int64_t channels = c.shape.channels;
  Result r{KernelTensor(c.type, o.x.values()), KernelTensor(DType::f32, channels), KernelTensor(DType::f32, channels),
           KernelTensor(DType::f32, o.running_mean.values()), KernelTensor(DType::f32, o.running_var.values())};
  std::vector<std::byte> workspace(at(batchnorm2d_forward_workspace_bytes(c.shape)), static_cast<std::byte>(poison));
  batchnorm2d_forward(c.type,
                      {.x = in_place ? r.y.data() : o.x.data(),
                       .y = r.y.data(),
                       .running_mean = r.running_mean.data<float>(),
                       .running_var = r.running_var.data<float>(),
                       .weight = c.affine ? o.weight.data<float>() : nullptr,
                       .bias = c.affine ? o.bias.data<float>() : nullptr,
                       .sums = sums == nullptr ? nullptr : sums->of_x.data<float>(),
                       .square_sums = sums == nullptr ? nullptr : sums->of_squares.data<float>(),
                       .mean = r.mean.data<float>(),
                       .rstd = r.rstd.data<float>(),
                       .workspace = workspace.data(),
                       .eps = c.eps,
                       .momentum = c.momentum,
                       .relu = c.relu,
                       .ceiling = c.ceiling},
                      c.shape, nullptr);
  return r;
}

struct Gradients {
  KernelTensor dx, dweight, dbias;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};
inline Gradients run_backward(const Case& c, const Operands& o, const KernelTensor& dy, const Result& forward,
                              int poison, bool in_place) {
  Gradients g{KernelTensor(c.type, dy.values()), KernelTensor(DType::f32, c.shape.channels),
              KernelTensor(DType::f32, c.shape.channels)};
  std::vector<std::byte> workspace(at(batchnorm2d_backward_workspace_bytes(c.shape)), static_cast<std::byte>(poison));
  batchnorm2d_backward(c.type,
                       {.dy = in_place ? g.dx.data() : dy.data(),
                        .x = o.x.data(),
                        .mean = forward.mean.data<float>(),
                        .rstd = forward.rstd.data<float>(),
                        .weight = c.affine ? o.weight.data<float>() : nullptr,
                        .bias = c.affine && c.relu ? o.bias.data<float>() : nullptr,
                        .dx = g.dx.data(),
                        .dweight = c.affine ? g.dweight.data<float>() : nullptr,
                        .dbias = c.affine ? g.dbias.data<float>() : nullptr,
                        .workspace = workspace.data(),
                        .relu = c.relu,
                        .ceiling = c.ceiling},
                       c.shape, nullptr);
  return g;
}

}  // namespace trainer::cuda::batchnorm2d_calls
