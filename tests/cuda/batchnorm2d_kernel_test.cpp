#include <catch2/catch.hpp>

#include "tests/cuda/batchnorm2d_calls.h"

namespace trainer::cuda {
namespace {

using namespace batchnorm2d_calls;

void check_forward(const Case& c, const Operands& o, const Result& r, double tolerance) {
  INFO(c.shape.rows << " rows, " << c.shape.channels << " channels, " << name_of(c.type) << (c.affine ? ", affine" : "")
                    << (c.relu ? ", relu" : ""));
  const Statistics s = statistics_of(c.shape, o.x.values());
  Numbers rstd, running_mean, running_var;
  const auto rows = static_cast<double>(c.shape.rows);
  for (std::size_t i = 0; i < s.mean.size(); ++i) {
    rstd.push_back(1 / std::sqrt(s.variance[i] + c.eps));
    running_mean.push_back((1 - c.momentum) * o.running_mean.values()[i] + c.momentum * s.mean[i]);
    const double unbiased = rows > 1 ? s.variance[i] * rows / (rows - 1) : s.variance[i];
    running_var.push_back((1 - c.momentum) * o.running_var.values()[i] + c.momentum * unbiased);
  }
  CHECK(difference(r.mean.values(), s.mean) < 1e-6);
  CHECK(difference(r.rstd.values(), rstd) < 1e-5);
  CHECK(difference(r.running_mean.values(), running_mean) < 1e-6);
  CHECK(difference(r.running_var.values(), running_var) < 1e-6);
  CHECK(difference(r.y.values(), normalized(c, o, s)) < tolerance);
}

TEST_CASE("batch norm in training normalises by the batch and remembers it, in every type and shape") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        const Case c{.shape = shape, .type = type, .affine = affine, .relu = affine};
        const Operands o(c);
        const Result r = run_forward(c, o);
        check_forward(c, o, r, tolerance_of(type));
        CHECK(run_forward(c, o, 0x3D) == r);
        CHECK(run_forward(c, o, 0xFF, true) == r);
      }
    }
  }
}

TEST_CASE("batch norm made anew from its mean and deviation has the bits of the first time, in every type and shape") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        const Case c{.shape = shape, .type = type, .affine = affine, .relu = shape.channels % 2 == 0};
        const Operands o(c);
        const Result r = run_forward(c, o);
        for (const bool in_place : {false, true}) {
          const KernelTensor y(c.type, o.x.values());
          batchnorm2d_normalize(c.type,
                                {.x = in_place ? y.data() : o.x.data(),
                                 .y = y.data(),
                                 .mean = r.mean.data<float>(),
                                 .rstd = r.rstd.data<float>(),
                                 .weight = affine ? o.weight.data<float>() : nullptr,
                                 .bias = affine ? o.bias.data<float>() : nullptr,
                                 .relu = c.relu,
                                 .ceiling = c.ceiling},
                                c.shape, nullptr);
          CHECK(y == r.y);
        }
      }
    }
  }
}

TEST_CASE("batch norm applies eps, momentum and ReLU each on its own") {
  for (const BatchNorm2dShape& shape : {BatchNorm2dShape{7, 12}, BatchNorm2dShape{1033, 12}}) {
    for (const bool relu : {false, true}) {
      for (const bool affine : {false, true}) {
        const Case c{.shape = shape, .affine = affine, .relu = relu, .eps = 0.25, .momentum = 0.7};
        const Operands o(c);
        check_forward(c, o, run_forward(c, o), 2e-5);
      }
    }
  }
}

TEST_CASE("batch norm of numbers close together far from zero keeps their variance") {
  for (const BatchNorm2dShape& shape : {BatchNorm2dShape{600, 8}, BatchNorm2dShape{5003, 9}}) {
    const Case c{.shape = shape, .affine = false};
    const Operands o(c, 1000, 0.05);
    const Result r = run_forward(c, o);
    // The mean, as f32, is half a unit of its last place off: 3e-5, which rstd = 35 makes 1e-3 in y.
    check_forward(c, o, r, 1.2e-3);
    // A first row that is like no other must not cost the others their digits.
    Numbers x = o.x.values();
    for (std::int64_t i = 0; i < shape.channels; ++i) x[at(i)] = -1000;
    Operands outlier(c, 1000, 0.05);
    outlier.x = KernelTensor(DType::f32, x);
    check_forward(c, outlier, run_forward(c, outlier), 2e-5);
  }
}

TEST_CASE("batch norm of operands that are not aligned gives the same numbers") {
  for (const BatchNorm2dShape& shape : {BatchNorm2dShape{77, 16}, BatchNorm2dShape{1100, 16}}) {
    const Case c{.shape = shape, .type = DType::f16};
    const Operands o(c, 0, 1, 1);
    check_forward(c, o, run_forward(c, o), 1e-3);
  }
}

TEST_CASE("NaN in one channel makes that channel NaN, through ReLU, and no other") {
  for (const BatchNorm2dShape& shape : {BatchNorm2dShape{50, 8}, BatchNorm2dShape{2000, 8}}) {
    const Case c{.shape = shape, .relu = true};
    Operands o(c);
    o.x.data<float>()[7 * 8 + 3] = NAN;
    const Result r = run_forward(c, o);
    const Numbers y = r.y.values();
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i % 8 == 3));
    CHECK(std::isnan(r.running_mean.values()[3]));
    CHECK(std::isnan(r.running_var.values()[3]));
    CHECK_FALSE(std::isnan(r.running_var.values()[4]));
  }
}

TEST_CASE("batch norm in evaluation normalises by the running statistics and leaves them alone") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        const Case c{.shape = shape, .type = type, .affine = affine, .relu = !affine};
        const Operands o(c);
        const Numbers means = o.running_mean.values(), variances = o.running_var.values();
        for (const bool in_place : {false, true}) {
          const KernelTensor y(c.type, o.x.values());
          batchnorm2d_inference(c.type,
                                {.x = in_place ? y.data() : o.x.data(),
                                 .y = y.data(),
                                 .running_mean = o.running_mean.data<float>(),
                                 .running_var = o.running_var.data<float>(),
                                 .weight = affine ? o.weight.data<float>() : nullptr,
                                 .bias = affine ? o.bias.data<float>() : nullptr,
                                 .eps = c.eps,
                                 .relu = c.relu,
                                 .ceiling = c.ceiling},
                                c.shape, nullptr);
          INFO(shape.rows << " rows, " << shape.channels << " channels, " << name_of(type));
          CHECK(difference(y.values(), normalized(c, o, {means, variances})) < tolerance_of(type));
        }
        CHECK(o.running_mean.values() == means);
        CHECK(o.running_var.values() == variances);
      }
    }
  }
}

/// By the chain rule through variance and mean one after the other, as they depend on x.
void check_backward(const Case& c, std::int64_t num_skipped = 0) {
  INFO(c.shape.rows << " rows, " << c.shape.channels << " channels, " << name_of(c.type) << (c.affine ? ", affine" : "")
                    << (c.relu ? ", relu" : ""));
  const Operands o(c, 0.5, 1, num_skipped);
  const KernelTensor dy(c.type, random_numbers(num_elements(c.shape), 9));
  const Result forward = run_forward(c, o);
  const Statistics s = statistics_of(c.shape, o.x.values());
  Numbers rstds;
  for (const double variance : s.variance) rstds.push_back(1 / std::sqrt(variance + c.eps));
  const Gradients g = run_backward(c, o, dy, forward, 0xFF, false);
  CHECK(run_backward(c, o, dy, forward, 0x3D, false) == g);
  CHECK(run_backward(c, o, dy, forward, 0xFF, true) == g);

  const Numbers x = o.x.values(), dys = dy.values(), ys = forward.y.values(), weights = o.weight.values();
  const std::size_t channels = at(c.shape.channels);
  const auto rows = static_cast<double>(c.shape.rows);
  Numbers dweight(channels), dbias(channels), dvariance(channels), dmean(channels), dx(x.size());
  const auto masked = [&](std::size_t i) {
    return !c.relu || (ys[i] > 0 && !(ys[i] >= static_cast<double>(c.ceiling))) ? dys[i] : 0.0;
  };
  const auto into_normal = [&](std::size_t i) { return masked(i) * (c.affine ? weights[i % channels] : 1.0); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = i % channels;
    dbias[k] += masked(i);
    dweight[k] += masked(i) * (x[i] - s.mean[k]) * rstds[k];
    dvariance[k] += into_normal(i) * (x[i] - s.mean[k]) * -0.5 * std::pow(rstds[k], 3);
    dmean[k] -= into_normal(i) * rstds[k];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = i % channels;
    dx[i] = into_normal(i) * rstds[k] + dvariance[k] * 2 * (x[i] - s.mean[k]) / rows + dmean[k] / rows;
  }
  // Of a single row rstd is 316, by which dx = 0 is off.
  const double scale = c.shape.rows == 1 ? 20 : 1;
  CHECK(difference(g.dx.values(), dx) < scale * 2 * tolerance_of(c.type));
  if (!c.affine) return;
  const double sum_tolerance = 1e-6 * (1 + std::sqrt(rows));
  CHECK(difference(g.dweight.values(), dweight) < sum_tolerance);
  CHECK(difference(g.dbias.values(), dbias) < sum_tolerance);
}

TEST_CASE("the gradient of batch norm agrees with the chain rule in every type and shape") {
  for (const DType type : element_types) {
    for (const BatchNorm2dShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        check_backward({.shape = shape, .type = type, .affine = affine, .relu = !affine});
      }
    }
  }
}

TEST_CASE("batch norm with a ceiling is at most that, and passes no gradient there") {
  for (const BatchNorm2dShape& shape :
       {BatchNorm2dShape{77, 16}, BatchNorm2dShape{1100, 12}, BatchNorm2dShape{131, 3}}) {
    for (const bool affine : {false, true}) {
      const Case c{.shape = shape, .affine = affine, .relu = true, .ceiling = 0.5F};
      const Operands o(c);
      check_forward(c, o, run_forward(c, o), 2e-5);
      check_backward(c);
    }
  }
}

TEST_CASE("the gradient of batch norm takes ReLU and weights together, and operands that are not aligned") {
  for (const BatchNorm2dShape& shape : {BatchNorm2dShape{77, 16}, BatchNorm2dShape{1100, 16}}) {
    for (const std::int64_t num_skipped : {0, 1}) {
      check_backward({.shape = shape, .relu = true}, num_skipped);
      check_backward({.shape = shape, .affine = false}, num_skipped);
    }
  }
}

TEST_CASE("parts of a reduction cover all rows, none is empty, and there are at most a thousand blocks") {
  for (const std::int64_t rows : {1LL, 2LL, 63LL, 64LL, 65LL, 8191LL, 8193LL, 100003LL, 3211264LL, 1LL << 40}) {
    for (const std::int64_t channels : {1LL, 3LL, 64LL, 127LL, 129LL, 2048LL, 1000003LL}) {
      const RowParts parts = row_parts(rows, channels);
      INFO(rows << " rows of " << channels);
      CHECK(parts.num_parts * parts.rows_per_part >= rows);
      CHECK((parts.num_parts - 1) * parts.rows_per_part < rows);
      CHECK((parts.num_parts == 1 || parts.num_parts * ((channels + 127) / 128) <= 1024));
    }
  }
}

}  // namespace
}  // namespace trainer::cuda
