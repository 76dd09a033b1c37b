#include "cuda/kernels/layernorm.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using Numbers = std::vector<double>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct NormCase {
  LayerNormShape shape;
  DType type = DType::f32;
  bool affine = true;
  double eps = 1e-5;
  bool centres = true;
};

std::string text_of(const NormCase& c) {
  return fmt::format("{} rows of {}, {}{}{}", c.shape.rows, c.shape.columns, name_of(c.type),
                     c.affine ? ", affine" : "", c.centres ? "" : ", without a mean");
}

// A warp for each row, two, four and a block; columns in registers and past them, from 1024 · packs on forward and from
// 4096 on back; rows below, at and past what a block and what a part of the sums over rows take.
constexpr LayerNormShape shapes[] = {{1, 1},    {1, 2},    {9, 7},     {5, 33},   {8, 64},    {301, 3},
                                     {6, 129},  {65, 512}, {11, 516},  {33, 768}, {131, 260}, {3, 1031},
                                     {5, 1032}, {2, 2049}, {17, 2056}, {2, 4100}};

std::int64_t num_elements(const LayerNormShape& shape) { return shape.rows * shape.columns; }

struct Statistics {
  Numbers mean, rstd;
};
Statistics statistics_of(const NormCase& c, const Numbers& x) {
  Statistics s;
  const auto columns = static_cast<double>(c.shape.columns);
  for (std::int64_t row = 0; row < c.shape.rows; ++row) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < c.shape.columns && c.centres; ++i) mean += x[at(row * c.shape.columns + i)] / columns;
    for (std::int64_t i = 0; i < c.shape.columns; ++i)
      variance += std::pow(x[at(row * c.shape.columns + i)] - mean, 2) / columns;
    s.mean.push_back(mean);
    s.rstd.push_back(1 / std::sqrt(variance + c.eps));
  }
  return s;
}

struct NormOperands {
  KernelTensor x, weight, bias;
  explicit NormOperands(const NormCase& c, double offset = 0, double spread = 1, std::int64_t num_skipped = 0)
      : x(c.type, random_numbers(num_elements(c.shape), 1, offset - spread, offset + spread), num_skipped),
        weight(DType::f32, random_numbers(c.shape.columns, 2, -1.5, 1.5)),
        bias(DType::f32, random_numbers(c.shape.columns, 3)) {}
};

struct NormResult {
  KernelTensor y, mean, rstd;
  friend bool operator==(const NormResult&, const NormResult&) = default;
};
NormResult run_forward(const NormCase& c, const NormOperands& o, bool in_place = false) {
  NormResult r{KernelTensor(c.type, o.x.values()), KernelTensor(DType::f32, c.shape.rows),
               KernelTensor(DType::f32, c.shape.rows)};
  layernorm_forward(c.type,
                    {.x = in_place ? r.y.data() : o.x.data(),
                     .y = r.y.data(),
                     .weight = c.affine ? o.weight.data<float>() : nullptr,
                     .bias = c.affine && c.centres ? o.bias.data<float>() : nullptr,
                     .mean = c.centres ? r.mean.data<float>() : nullptr,
                     .rstd = r.rstd.data<float>(),
                     .eps = c.eps},
                    c.shape, nullptr);
  return r;
}

void check_forward(const NormCase& c, const NormOperands& o, double tolerance) {
  INFO(text_of(c));
  const NormResult r = run_forward(c, o);
  const Numbers x = o.x.values(), weight = o.weight.values(), bias = o.bias.values();
  const Statistics s = statistics_of(c, x);
  Numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / at(c.shape.columns), column = i % at(c.shape.columns);
    const double normal = (x[i] - s.mean[row]) * s.rstd[row];
    y.push_back(c.affine ? normal * weight[column] + (c.centres ? bias[column] : 0) : normal);
  }
  if (c.centres) CHECK(difference(r.mean.values(), s.mean) < 1e-6);
  CHECK(difference(r.rstd.values(), s.rstd) < 2e-5);
  CHECK(difference(r.y.values(), y) < tolerance);
  // What the address does to the packs is told by its own test; here they are the same.
  if (reinterpret_cast<std::uintptr_t>(o.x.data()) % 16 == 0) CHECK(run_forward(c, o, true) == r);
}

TEST_CASE("layer norm normalises each row in every type and shape") {
  for (const DType type : element_types) {
    for (const LayerNormShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        for (const bool centres : {false, true}) {
          const NormCase c{.shape = shape, .type = type, .affine = affine, .centres = centres};
          check_forward(c, NormOperands(c), 2 * tolerance_of(type));
        }
      }
    }
  }
}

TEST_CASE("layer norm takes another eps, and rows that are not aligned") {
  for (const LayerNormShape& shape : {LayerNormShape{9, 64}, LayerNormShape{3, 1040}}) {
    for (const DType type : element_types) {
      const NormCase c{.shape = shape, .type = type, .eps = 0.25};
      check_forward(c, NormOperands(c), 2 * tolerance_of(type));
      check_forward(c, NormOperands(c, 0, 1, 1), 2 * tolerance_of(type));
    }
  }
}

TEST_CASE("layer norm of numbers close together far from zero keeps their variance") {
  for (const LayerNormShape& shape : {LayerNormShape{5, 67}, LayerNormShape{2, 4100}}) {
    const NormCase c{.shape = shape, .affine = false};
    check_forward(c, NormOperands(c, 1000, 0.05), 1e-4);
  }
}

TEST_CASE("layer norm of a sum has the bits of layer norm of what it stores as the sum, over either operand") {
  for (const DType type : element_types) {
    for (const LayerNormShape& shape : shapes) {
      for (const std::int64_t num_skipped : {0, 1}) {
        INFO(shape.rows << " rows of " << shape.columns << ", " << name_of(type) << ", " << num_skipped << " skipped");
        const NormCase c{.shape = shape, .type = type};
        NormOperands o(c);
        const Numbers x = o.x.values();
        const KernelTensor addend(type, random_numbers(num_elements(shape), 7), num_skipped);
        const Numbers addends = addend.values();
        Numbers exact = x;
        for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += addends[i];
        o.x = KernelTensor(type, exact, num_skipped);
        const NormResult expected = run_forward(c, o);
        const auto run = [&](const KernelTensor& from, const KernelTensor& added, const KernelTensor& sum,
                             const KernelTensor& y) {
          const KernelTensor mean(DType::f32, shape.rows), rstd(DType::f32, shape.rows);
          layernorm_forward(type,
                            {.x = from.data(),
                             .y = y.data(),
                             .addend = added.data(),
                             .sum = sum.data(),
                             .weight = o.weight.data<float>(),
                             .bias = o.bias.data<float>(),
                             .mean = mean.data<float>(),
                             .rstd = rstd.data<float>(),
                             .eps = c.eps},
                            shape, nullptr);
          CHECK(sum.values() == o.x.values());
          CHECK(y == expected.y);
          CHECK(mean == expected.mean);
          CHECK(rstd == expected.rstd);
        };
        run(KernelTensor(type, x), addend, KernelTensor(type, num_elements(shape)),
            KernelTensor(type, num_elements(shape)));
        if (num_skipped != 0) continue;
        const KernelTensor a(type, x), b(type, addends), d(type, x), e(type, addends);
        run(a, b, a, b);
        run(d, e, e, d);
      }
    }
  }
}

TEST_CASE("NaN in one row makes that row NaN and no other") {
  for (const LayerNormShape& shape : {LayerNormShape{10, 40}, LayerNormShape{10, 600}}) {
    const NormCase c{.shape = shape};
    const NormOperands o(c);
    o.x.data<float>()[4 * shape.columns + 39] = NAN;
    const NormResult r = run_forward(c, o);
    const Numbers y = r.y.values(), rstd = r.rstd.values();
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / at(shape.columns) == 4));
    for (std::size_t row = 0; row < rstd.size(); ++row) CHECK(std::isnan(rstd[row]) == (row == 4));
  }
}

struct Gradients {
  KernelTensor dx, dweight, dbias;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};
Gradients run_backward(const NormCase& c, const NormOperands& o, const KernelTensor& dy, const KernelTensor& mean,
                       const KernelTensor& rstd, int poison, bool in_place) {
  Gradients g{KernelTensor(c.type, dy.values()), KernelTensor(DType::f32, c.shape.columns),
              KernelTensor(DType::f32, c.shape.columns)};
  std::vector<std::byte> workspace(at(c.affine ? layernorm_gradient_workspace_bytes(c.shape) : 0),
                                   static_cast<std::byte>(poison));
  layernorm_backward(c.type,
                     {.dy = in_place ? g.dx.data() : dy.data(),
                      .x = o.x.data(),
                      .mean = c.centres ? mean.data<float>() : nullptr,
                      .rstd = rstd.data<float>(),
                      .weight = c.affine ? o.weight.data<float>() : nullptr,
                      .dx = g.dx.data(),
                      .dweight = c.affine ? g.dweight.data<float>() : nullptr,
                      .dbias = c.affine && c.centres ? g.dbias.data<float>() : nullptr,
                      .workspace = workspace.data()},
                     c.shape, nullptr);
  return g;
}

/// By the chain rule through variance and mean one after the other, as they depend on x.
void check_norm_backward(const NormCase& c, std::int64_t num_skipped = 0) {
  INFO(text_of(c));
  const NormOperands o(c, 0.5, 1, num_skipped);
  const KernelTensor dy(c.type, random_numbers(num_elements(c.shape), 9));
  const Statistics s = statistics_of(c, o.x.values());
  const KernelTensor mean(DType::f32, s.mean), rstd(DType::f32, s.rstd);
  const Gradients g = run_backward(c, o, dy, mean, rstd, 0xFF, false);
  CHECK(run_backward(c, o, dy, mean, rstd, 0x3D, false) == g);
  if (num_skipped == 0) CHECK(run_backward(c, o, dy, mean, rstd, 0xFF, true) == g);

  const Numbers x = o.x.values(), dys = dy.values(), weights = o.weight.values();
  const std::size_t columns = at(c.shape.columns);
  const auto count = static_cast<double>(columns);
  Numbers dweight(columns), dbias(columns), dvariance(at(c.shape.rows)), dmean(at(c.shape.rows)), dx(x.size());
  const auto into_normal = [&](std::size_t i) { return dys[i] * (c.affine ? weights[i % columns] : 1.0); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / columns;
    dbias[i % columns] += dys[i];
    dweight[i % columns] += dys[i] * (x[i] - s.mean[row]) * s.rstd[row];
    dvariance[row] += into_normal(i) * (x[i] - s.mean[row]) * -0.5 * std::pow(s.rstd[row], 3);
    if (c.centres) dmean[row] -= into_normal(i) * s.rstd[row];
  }
  double largest = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / columns;
    dx[i] = into_normal(i) * s.rstd[row] + dvariance[row] * 2 * (x[i] - s.mean[row]) / count + dmean[row] / count;
    largest = std::max(largest, s.rstd[row]);
  }
  // Where a row's numbers are nearly equal rstd is large, and so is what dx is the difference of.
  CHECK(difference(g.dx.values(), dx) < std::max(2e-6 * largest, 2 * tolerance_of(c.type)));
  if (!c.affine) return;
  const double sum_tolerance = 1e-6 * std::sqrt(static_cast<double>(c.shape.rows)) * largest;
  CHECK(difference(g.dweight.values(), dweight) < sum_tolerance);
  if (c.centres) CHECK(difference(g.dbias.values(), dbias) < sum_tolerance);
}

TEST_CASE("the gradient of layer norm agrees with the chain rule in every type and shape") {
  for (const DType type : element_types) {
    for (const LayerNormShape& shape : shapes) {
      for (const bool affine : {false, true}) {
        for (const bool centres : {false, true})
          check_norm_backward({.shape = shape, .type = type, .affine = affine, .centres = centres});
      }
    }
  }
}

TEST_CASE("a gradient from elsewhere is added to that of layer norm, in its place or not") {
  for (const DType type : element_types) {
    for (const LayerNormShape& shape : shapes) {
      INFO(shape.rows << " rows of " << shape.columns << ", " << name_of(type));
      const NormCase c{.shape = shape, .type = type};
      const NormOperands o(c, 0.5);
      const KernelTensor dy(type, random_numbers(num_elements(shape), 9));
      const Numbers added = KernelTensor(type, random_numbers(num_elements(shape), 10)).values();
      const Statistics s = statistics_of(c, o.x.values());
      const KernelTensor mean(DType::f32, s.mean), rstd(DType::f32, s.rstd);
      const Gradients plain = run_backward(c, o, dy, mean, rstd, 0xFF, false);
      Numbers expected = plain.dx.values();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
      std::vector<KernelTensor> results;
      for (const bool in_place : {false, true}) {
        const KernelTensor apart(type, added), dx(type, added);
        const KernelTensor dweight(DType::f32, shape.columns), dbias(DType::f32, shape.columns);
        std::vector<std::byte> workspace(at(layernorm_gradient_workspace_bytes(shape)), std::byte{0xFF});
        layernorm_backward(type,
                           {.dy = dy.data(),
                            .x = o.x.data(),
                            .mean = mean.data<float>(),
                            .rstd = rstd.data<float>(),
                            .weight = o.weight.data<float>(),
                            .added_gradient = in_place ? dx.data() : apart.data(),
                            .dx = dx.data(),
                            .dweight = dweight.data<float>(),
                            .dbias = dbias.data<float>(),
                            .workspace = workspace.data()},
                           shape, nullptr);
        CHECK(difference(dx.values(), expected) < 3 * tolerance_of(type));
        CHECK(dweight == plain.dweight);
        CHECK(dbias == plain.dbias);
        results.push_back(KernelTensor(type, dx.values()));
      }
      CHECK(results[0] == results[1]);
    }
  }
}

TEST_CASE("the gradient of layer norm combines many parts of the rows, aligned or not") {
  // 16 rows a part: 34 parts, more than are combined at once.
  check_norm_backward({.shape = {531, 128}});
  check_norm_backward({.shape = {200, 128}, .type = DType::bf16}, 1);
  // Two parts of tiles of columns.
  check_norm_backward({.shape = {66, 4104}});
  check_norm_backward({.shape = {66, 4104}, .centres = false});
}

TEST_CASE("the sums of layer norm's gradient take half a byte for each element at most, and 256 rows of pairs") {
  CHECK(layernorm_gradient_workspace_bytes({16, 768}) == 0);
  CHECK(layernorm_gradient_workspace_bytes({17, 768}) == 2 * 8 * 768);
  CHECK(layernorm_gradient_workspace_bytes({512, 128}) == 512 * 128 / 2);
  CHECK(layernorm_gradient_workspace_bytes({4096, 768}) == 4096 * 768 / 2);
  CHECK(layernorm_gradient_workspace_bytes({8192, 768}) == 256 * 8 * 768);
  CHECK(layernorm_gradient_workspace_bytes({1 << 20, 4096}) == 256 * 8 * 4096);
  // 1024 blocks fill a GPU where a row is short.
  CHECK(layernorm_gradient_workspace_bytes({1 << 20, 128}) == 1024 * 8 * 128);
  // Above 4096 columns parts are of 64 rows.
  CHECK(layernorm_gradient_workspace_bytes({128, 4097}) == 2 * 8 * 4097);
}

}  // namespace
}  // namespace trainer::cuda
