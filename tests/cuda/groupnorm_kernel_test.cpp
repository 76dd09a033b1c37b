#include "cuda/kernels/groupnorm.h"

#include <catch2/catch.hpp>

#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using GroupNumbers = std::vector<double>;

std::size_t position(std::int64_t index) { return static_cast<std::size_t>(index); }

struct GroupCase {
  GroupNormShape shape;
  DType type = DType::f32;
  bool affine = true, relu = false;
  double eps = 1e-5;

  std::int64_t num_elements() const { return shape.samples * shape.rows * shape.channels; }
  std::size_t group_of(std::int64_t i) const {
    const std::int64_t sample = i / (shape.rows * shape.channels);
    return position(sample * shape.groups + i % shape.channels / shape.group_channels());
  }
  std::size_t channel_of(std::int64_t i) const { return position(i % shape.channels); }
  std::string text() const {
    return std::to_string(shape.samples) + " samples of " + std::to_string(shape.rows) + "x" +
           std::to_string(shape.channels) + ", " + std::to_string(shape.groups) + " groups, " +
           std::string(name_of(type)) + (affine ? ", affine" : "") + (relu ? ", relu" : "");
  }
};

// One launch: groups of one channel, of a pack, of parts of packs, of all channels, of more than a warp; rows fewer and
// more than stand side by side; samples in several parts. Then several launches: rows beyond one, few and many groups,
// a group wider than a block's, as many samples as leave one part of the rows.
constexpr GroupNormShape group_shapes[] = {{1, 1, 2, 1},     {3, 1, 12, 4},   {2, 5, 16, 16},  {2, 7, 24, 8},
                                           {5, 3, 15, 5},    {2, 35, 64, 2},  {33, 1, 40, 5},  {2, 9, 67, 67},
                                           {1, 4, 1024, 2},  {2, 2, 510, 2},  {1, 1030, 8, 2}, {2, 1100, 16, 16},
                                           {1, 1030, 40, 1}, {2, 3, 1032, 1}, {3, 2, 2050, 2}, {70, 2, 1036, 1}};

struct GroupStatistics {
  GroupNumbers mean, rstd;
};
GroupStatistics group_statistics(const GroupCase& c, const GroupNumbers& x) {
  const auto groups = position(c.shape.samples * c.shape.groups);
  GroupStatistics s{GroupNumbers(groups), GroupNumbers(groups)};
  const auto count = static_cast<double>(c.shape.rows * c.shape.group_channels());
  for (std::int64_t i = 0; i < c.num_elements(); ++i) s.mean[c.group_of(i)] += x[position(i)] / count;
  for (std::int64_t i = 0; i < c.num_elements(); ++i)
    s.rstd[c.group_of(i)] += std::pow(x[position(i)] - s.mean[c.group_of(i)], 2) / count;
  for (double& value : s.rstd) value = 1 / std::sqrt(value + c.eps);
  return s;
}

struct GroupOperands {
  KernelTensor x, weight, bias;
  explicit GroupOperands(const GroupCase& c, double offset = 0, double spread = 1, std::int64_t num_skipped = 0)
      : x(c.type, random_numbers(c.num_elements(), 1, offset - spread, offset + spread), num_skipped),
        weight(DType::f32, random_numbers(c.shape.channels, 2, -1.5, 1.5)),
        bias(DType::f32, random_numbers(c.shape.channels, 3)) {}
};

struct GroupResult {
  KernelTensor y, mean, rstd;
  friend bool operator==(const GroupResult&, const GroupResult&) = default;
};
GroupResult run_group_norm(const GroupCase& c, const GroupOperands& o, bool in_place = false) {
  const std::int64_t groups = c.shape.samples * c.shape.groups;
  GroupResult r{KernelTensor(c.type, o.x.values()), KernelTensor(DType::f32, groups), KernelTensor(DType::f32, groups)};
  std::vector<std::byte> workspace(position(groupnorm_forward_workspace_bytes(c.shape)), std::byte{0xFF});
  groupnorm_forward(c.type,
                    {.x = in_place ? r.y.data() : o.x.data(),
                     .y = r.y.data(),
                     .weight = c.affine ? o.weight.data<float>() : nullptr,
                     .bias = c.affine ? o.bias.data<float>() : nullptr,
                     .mean = r.mean.data<float>(),
                     .rstd = r.rstd.data<float>(),
                     .workspace = workspace.data(),
                     .eps = c.eps,
                     .relu = c.relu},
                    c.shape, nullptr);
  return r;
}

/// The line of each element before ReLU.
GroupNumbers lines_of(const GroupCase& c, const GroupOperands& o, const GroupStatistics& s) {
  const GroupNumbers x = o.x.values(), weight = o.weight.values(), bias = o.bias.values();
  GroupNumbers y;
  for (std::int64_t i = 0; i < c.num_elements(); ++i) {
    const double normal = (x[position(i)] - s.mean[c.group_of(i)]) * s.rstd[c.group_of(i)];
    y.push_back(c.affine ? normal * weight[c.channel_of(i)] + bias[c.channel_of(i)] : normal);
  }
  return y;
}

void check_group_norm(const GroupCase& c, const GroupOperands& o, double tolerance) {
  INFO(c.text());
  const GroupResult r = run_group_norm(c, o);
  const GroupStatistics s = group_statistics(c, o.x.values());
  GroupNumbers y = lines_of(c, o, s);
  for (double& value : y) value = c.relu && value < 0 ? 0 : value;
  CHECK(difference(r.mean.values(), s.mean) < 1e-6);
  CHECK(difference(r.rstd.values(), s.rstd) < 2e-5);
  CHECK(difference(r.y.values(), y) < tolerance);
  // What the address does to the packs is told by its own test; here they are the same.
  if (reinterpret_cast<std::uintptr_t>(o.x.data()) % 16 == 0) CHECK(run_group_norm(c, o, true) == r);
  const KernelTensor again(c.type, c.num_elements());
  groupnorm_normalize(c.type,
                      {.x = o.x.data(),
                       .y = again.data(),
                       .mean = r.mean.data<float>(),
                       .rstd = r.rstd.data<float>(),
                       .weight = c.affine ? o.weight.data<float>() : nullptr,
                       .bias = c.affine ? o.bias.data<float>() : nullptr,
                       .relu = c.relu},
                      c.shape, nullptr);
  CHECK(again == r.y);
}

TEST_CASE("group norm normalises each group of each sample in every type and shape, again to the same bits") {
  for (const DType type : element_types) {
    for (const GroupNormShape& shape : group_shapes) {
      for (const bool affine : {false, true}) {
        if (!affine && type == DType::f16) continue;  // as bf16's
        const GroupCase c{.shape = shape, .type = type, .affine = affine, .relu = affine};
        check_group_norm(c, GroupOperands(c), 2 * tolerance_of(type));
      }
    }
  }
}

TEST_CASE("group norm takes another eps, and rows that are not aligned") {
  for (const GroupNormShape& shape : {GroupNormShape{2, 9, 64, 4}, GroupNormShape{1, 1040, 16, 2}}) {
    for (const DType type : element_types) {
      const GroupCase c{.shape = shape, .type = type, .eps = 0.25};
      check_group_norm(c, GroupOperands(c), 2 * tolerance_of(type));
      check_group_norm(c, GroupOperands(c, 0, 1, 1), 2 * tolerance_of(type));
    }
  }
}

TEST_CASE("group norm of numbers close together far from zero keeps their variance") {
  for (const GroupNormShape& shape : {GroupNormShape{2, 7, 24, 8}, GroupNormShape{1, 2000, 16, 2}}) {
    const GroupCase c{.shape = shape, .affine = false};
    // Half a unit of the mean's last place, which is kept in f32, is a thousandth of the deviation.
    check_group_norm(c, GroupOperands(c, 1000, 0.05), 1.5e-3);
  }
}

TEST_CASE("group norm passes a NaN to its group alone") {
  for (const GroupNormShape& shape : {GroupNormShape{2, 7, 24, 4}, GroupNormShape{2, 1100, 16, 2}}) {
    const GroupCase c{.shape = shape, .relu = true};
    GroupOperands o(c);
    o.x.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    const GroupNumbers y = run_group_norm(c, o).y.values();
    for (std::int64_t i = 0; i < c.num_elements(); ++i) {
      if (std::isnan(y[position(i)]) != (c.group_of(i) == 0)) FAIL(c.text() << " at " << i);
    }
  }
}

struct GroupGradients {
  KernelTensor dx, dweight, dbias;
  friend bool operator==(const GroupGradients&, const GroupGradients&) = default;
};
GroupGradients run_group_gradients(const GroupCase& c, const GroupOperands& o, const KernelTensor& dy,
                                   const GroupResult& forward, std::uint8_t poison, bool in_place) {
  GroupGradients r{KernelTensor(c.type, dy.values()), KernelTensor(DType::f32, c.shape.channels),
                   KernelTensor(DType::f32, c.shape.channels)};
  std::vector<std::byte> workspace(position(groupnorm_backward_workspace_bytes(c.shape, c.affine)), std::byte{poison});
  groupnorm_backward(c.type,
                     {.dy = in_place ? r.dx.data() : dy.data(),
                      .x = o.x.data(),
                      .mean = forward.mean.data<float>(),
                      .rstd = forward.rstd.data<float>(),
                      .weight = c.affine ? o.weight.data<float>() : nullptr,
                      .bias = c.affine && c.relu ? o.bias.data<float>() : nullptr,
                      .dx = r.dx.data(),
                      .dweight = c.affine ? r.dweight.data<float>() : nullptr,
                      .dbias = c.affine ? r.dbias.data<float>() : nullptr,
                      .workspace = workspace.data(),
                      .relu = c.relu},
                     c.shape, nullptr);
  return r;
}

void check_group_gradients(const GroupCase& c, const GroupOperands& o, std::int64_t num_skipped = 0) {
  INFO(c.text() << ", " << num_skipped << " skipped");
  const GroupResult forward = run_group_norm(c, o);
  const KernelTensor dy(c.type, random_numbers(c.num_elements(), 5), num_skipped);
  const GroupStatistics s = group_statistics(c, o.x.values());
  const GroupNumbers x = o.x.values(), weight = o.weight.values(), lines = lines_of(c, o, s);
  GroupNumbers g = dy.values();
  for (std::int64_t i = 0; i < c.num_elements(); ++i) g[position(i)] *= c.relu && lines[position(i)] <= 0 ? 0 : 1;
  const auto count = static_cast<double>(c.shape.rows * c.shape.group_channels());
  GroupNumbers sum(s.mean.size()), product(s.mean.size()), dweight(position(c.shape.channels)), dbias(dweight);
  const auto normal = [&](std::int64_t i) { return (x[position(i)] - s.mean[c.group_of(i)]) * s.rstd[c.group_of(i)]; };
  const auto scaled = [&](std::int64_t i) { return g[position(i)] * (c.affine ? weight[c.channel_of(i)] : 1); };
  for (std::int64_t i = 0; i < c.num_elements(); ++i) {
    sum[c.group_of(i)] += scaled(i) / count;
    product[c.group_of(i)] += scaled(i) * normal(i) / count;
    dweight[c.channel_of(i)] += g[position(i)] * normal(i);
    dbias[c.channel_of(i)] += g[position(i)];
  }
  GroupNumbers dx;
  for (std::int64_t i = 0; i < c.num_elements(); ++i)
    dx.push_back(s.rstd[c.group_of(i)] * (scaled(i) - sum[c.group_of(i)] - normal(i) * product[c.group_of(i)]));
  const GroupGradients r = run_group_gradients(c, o, dy, forward, 0xFF, false);
  double largest = 1;
  for (const double rstd : s.rstd) largest = std::max(largest, rstd);
  CHECK(difference(r.dx.values(), dx) < 4 * largest * tolerance_of(c.type));
  if (c.affine) {
    const double rows = static_cast<double>(c.shape.samples * c.shape.rows);
    CHECK(difference(r.dweight.values(), dweight) < 1e-5 * std::max(16.0, rows));
    CHECK(difference(r.dbias.values(), dbias) < 1e-5 * std::max(16.0, rows));
  }
  if (num_skipped == 0) CHECK(run_group_gradients(c, o, dy, forward, 0x7F, true) == r);
}

TEST_CASE("the gradients of group norm are right in every type and shape, in place and whatever the workspace held") {
  for (const DType type : element_types) {
    for (const GroupNormShape& shape : group_shapes) {
      for (const bool affine : {false, true}) {
        if (!affine && type == DType::f16) continue;  // as bf16's
        const GroupCase c{.shape = shape, .type = type, .affine = affine};
        check_group_gradients(c, GroupOperands(c));
      }
    }
  }
}

TEST_CASE("the gradient of group norm passes ReLU where the output was above 0, aligned or not") {
  for (const GroupNormShape& shape :
       {GroupNormShape{2, 9, 64, 4}, GroupNormShape{37, 1, 12, 3}, GroupNormShape{1, 1040, 16, 2}}) {
    for (const bool affine : {false, true}) {
      const GroupCase c{.shape = shape, .affine = affine, .relu = true};
      check_group_gradients(c, GroupOperands(c));
      check_group_gradients(c, GroupOperands(c, 0, 1, 1), 1);
    }
  }
}

TEST_CASE("group norm needs no scratch where one launch does everything, and little elsewhere") {
  // Images of 32 x 32 and less, rows of features; the gradients of weights take half a byte for each element at most.
  CHECK(groupnorm_forward_workspace_bytes({64, 1024, 256, 32}) == 0);
  CHECK(groupnorm_backward_workspace_bytes({64, 1024, 256, 32}, false) == 0);
  CHECK(groupnorm_backward_workspace_bytes({64, 1024, 256, 32}, true) == 64 * 8 * 256);
  CHECK(groupnorm_backward_workspace_bytes({16, 1, 512, 8}, true) == 0);
  CHECK(groupnorm_backward_workspace_bytes({512, 1, 512, 8}, true) == 512 * 512 / 2);
  // One part of 1024 rows' worth for each sample where there are many samples.
  CHECK(groupnorm_forward_workspace_bytes({1024, 64 * 64, 128, 32}) == 1024 * 8 * 128);
  CHECK(groupnorm_forward_workspace_bytes({1, 512 * 512, 64, 32}) == 1024 * 8 * 64);
  CHECK(groupnorm_backward_workspace_bytes({1, 512 * 512, 64, 32}, true) == 1024 * 8 * 64 + 8 * 32);
}

}  // namespace
}  // namespace trainer::cuda
