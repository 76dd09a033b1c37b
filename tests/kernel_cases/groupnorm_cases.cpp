#include <fmt/format.h>

#include "cuda/kernels/groupnorm.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

/// Of one sample, as (pixels, channels, groups).
struct GroupNormPlace {
  const char* name;
  std::int64_t pixels, channels, groups;
};
// Large images of a segmentation network, which take several launches, and a small one, which takes one.
constexpr GroupNormPlace large_places[] = {{"40x40x64", 40 * 40, 64, 16}, {"40x40x64.instance", 40 * 40, 64, 64}};
constexpr GroupNormPlace small_place = {"16x16x256", 16 * 16, 256, 32};

GroupNormShape shape_of(const GroupNormPlace& place, std::int64_t samples) {
  return {samples, place.pixels, place.channels, place.groups};
}

std::string text_of(const GroupNormShape& shape) {
  return fmt::format("{}x{}x{}", shape.samples, shape.rows, shape.channels);
}

SizedCase sized_of(DType type, const GroupNormShape& shape, std::int64_t passes, std::int64_t workspace_bytes) {
  const std::int64_t count = shape.samples * shape.rows * shape.channels;
  return {.shape = text_of(shape),
          .bytes = passes * count * static_cast<std::int64_t>(size_of(type)) + 3 * workspace_bytes};
}

/// Where one launch does everything the second reading comes from the cache.
SizedCase group_norm(DType type, const GroupNormShape& shape) {
  const std::int64_t workspace_bytes = groupnorm_forward_workspace_bytes(shape);
  SizedCase sized = sized_of(type, shape, groupnorm_is_one_launch(shape) ? 2 : 3, workspace_bytes);
  const std::int64_t count = shape.samples * shape.rows * shape.channels, groups = shape.samples * shape.groups;
  const auto x = sized.input(type, count), y = sized.output(type, count);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto mean = sized.output(DType::f32, groups), rstd = sized.output(DType::f32, groups);
  const auto workspace = sized.scratch(workspace_bytes);
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    groupnorm_forward(type,
                      {.x = at[x],
                       .y = at[y],
                       .weight = at.as<const float>(weight),
                       .bias = at.as<const float>(bias),
                       .mean = at.as<float>(mean),
                       .rstd = at.as<float>(rstd),
                       .workspace = at[workspace],
                       .eps = 1e-5,
                       .relu = true},
                      shape, stream);
  };
  return sized;
}

SizedCase group_norm_again(DType type, const GroupNormShape& shape) {
  SizedCase sized = sized_of(type, shape, 2, 0);
  const std::int64_t count = shape.samples * shape.rows * shape.channels, groups = shape.samples * shape.groups;
  const auto x = sized.input(type, count), y = sized.output(type, count);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto mean = sized.input(DType::f32, groups), rstd = sized.input(DType::f32, groups, 0.5, 2);
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    groupnorm_normalize(type,
                        {.x = at[x],
                         .y = at[y],
                         .mean = at.as<const float>(mean),
                         .rstd = at.as<const float>(rstd),
                         .weight = at.as<const float>(weight),
                         .bias = at.as<const float>(bias),
                         .relu = true},
                        shape, stream);
  };
  return sized;
}

SizedCase group_norm_gradient(DType type, const GroupNormShape& shape) {
  const std::int64_t workspace_bytes = groupnorm_backward_workspace_bytes(shape, true);
  SizedCase sized = sized_of(type, shape, groupnorm_is_one_launch(shape) ? 3 : 5, workspace_bytes);
  const std::int64_t count = shape.samples * shape.rows * shape.channels, groups = shape.samples * shape.groups;
  const auto dy = sized.input(type, count), x = sized.input(type, count), dx = sized.output(type, count);
  const auto mean = sized.input(DType::f32, groups), rstd = sized.input(DType::f32, groups, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto dweight = sized.output(DType::f32, shape.channels), dbias = sized.output(DType::f32, shape.channels);
  const auto workspace = sized.scratch(workspace_bytes);
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    groupnorm_backward(type,
                       {.dy = at[dy],
                        .x = at[x],
                        .mean = at.as<const float>(mean),
                        .rstd = at.as<const float>(rstd),
                        .weight = at.as<const float>(weight),
                        .bias = at.as<const float>(bias),
                        .dx = at[dx],
                        .dweight = at.as<float>(dweight),
                        .dbias = at.as<float>(dbias),
                        .workspace = at[workspace],
                        .relu = true},
                       shape, stream);
  };
  return sized;
}

using GroupNormSize = SizedCase (*)(DType, const GroupNormShape&);

void add_group_norm(KernelCases& cases, const char* launcher, DType type, const GroupNormPlace& place,
                    std::int64_t samples, GroupNormSize size, std::vector<std::string> kernels) {
  cases.push_back({.name = case_name(launcher, type, place.name),
                   .kernels = std::move(kernels),
                   .units = samples,
                   .least_units = 2,
                   .sized = [=](std::int64_t units, Library&) { return size(type, shape_of(place, units)); }});
}

}  // namespace

void add_groupnorm_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const GroupNormPlace& place : large_places) {
      add_group_norm(cases, "groupnorm_forward", type, place, 256, group_norm,
                     {"groupnorm_moments_kernel", "groupnorm_statistics_kernel", "groupnorm_normalize_kernel"});
      add_group_norm(cases, "groupnorm_normalize", type, place, 256, group_norm_again, {"groupnorm_normalize_kernel"});
      add_group_norm(cases, "groupnorm_backward", type, place, 256, group_norm_gradient,
                     {"groupnorm_gradient_sums_kernel", "groupnorm_settle_gradients_kernel",
                      "groupnorm_weight_gradients_kernel", "groupnorm_combine_kernel"});
    }
    add_group_norm(cases, "groupnorm_forward", type, small_place, 256, group_norm,
                   {"groupnorm_forward_at_once_kernel"});
    add_group_norm(cases, "groupnorm_backward", type, small_place, 256, group_norm_gradient,
                   {"groupnorm_backward_at_once_kernel", "groupnorm_weight_gradients_kernel"});
  }
}

}  // namespace trainer::cuda
