#include <fmt/format.h>

#include <array>

#include "cuda/kernels/add_bias.h"
#include "cuda/kernels/batchnorm2d.h"
#include "cuda/kernels/bias_gradient.h"
#include "cuda/kernels/layernorm.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

// More than one part of the rows whatever the columns.
constexpr std::int64_t some_rows = 70;

/// Of one image of CIFAR's ResNet-18, as (pixels, channels).
struct BatchNormPlace {
  const char* name;
  std::int64_t pixels, channels;
};
struct BatchNormVariant {
  BatchNormPlace place;
  bool adds;
};
constexpr BatchNormVariant batchnorm_variants[] = {
    {{"32x32x64", 32 * 32, 64}, false}, {{"32x32x64", 32 * 32, 64}, true}, {{"16x16x128", 16 * 16, 128}, false},
    {{"8x8x256", 8 * 8, 256}, false},   {{"4x4x512", 4 * 4, 512}, false},  {{"4x4x512", 4 * 4, 512}, true},
};

std::string text_of(const BatchNorm2dShape& shape) { return fmt::format("{}x{}", shape.rows, shape.channels); }

/// Bytes of `passes` over the image.
std::int64_t pass_bytes(DType type, const BatchNorm2dShape& shape, std::int64_t passes) {
  return passes * shape.rows * shape.channels * static_cast<std::int64_t>(size_of(type));
}

/// With an addend or without.
using SizeOfShape = std::function<SizedCase(DType, const BatchNorm2dShape&, bool)>;

const void* given(const OperandAddresses& at, std::size_t operand, bool is_given) {
  return is_given ? at[operand] : nullptr;
}

/// Given sums serve: of a mean between −1 and 1 and a variance of about 1, whatever x is.
SizedCase forward_of(DType type, const BatchNorm2dShape& shape, bool adds, bool given_sums) {
  const int passes = 3 + (adds ? 1 : 0) - (given_sums ? 1 : 0);
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, passes)};
  const auto x = sized.input(type, shape.rows * shape.channels), y = sized.output(type, shape.rows * shape.channels);
  const auto running_mean = sized.modified(DType::f32, shape.channels);
  const auto running_var = sized.modified(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto mean = sized.output(DType::f32, shape.channels), rstd = sized.output(DType::f32, shape.channels);
  const auto workspace = sized.scratch(batchnorm2d_forward_workspace_bytes(shape));
  const auto addend = adds ? sized.input(type, shape.rows * shape.channels) : 0;
  const auto rows = static_cast<double>(shape.rows);
  const auto sums = given_sums ? sized.input(DType::f32, shape.channels, -rows, rows) : 0;
  const auto square_sums = given_sums ? sized.input(DType::f32, shape.channels, 2 * rows, 3 * rows) : 0;
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_forward(type,
                        {.x = at[x],
                         .y = at[y],
                         .addend = given(at, addend, adds),
                         .running_mean = at.as<float>(running_mean),
                         .running_var = at.as<float>(running_var),
                         .weight = at.as<const float>(weight),
                         .bias = at.as<const float>(bias),
                         .sums = given_sums ? at.as<const float>(sums) : nullptr,
                         .square_sums = given_sums ? at.as<const float>(square_sums) : nullptr,
                         .mean = at.as<float>(mean),
                         .rstd = at.as<float>(rstd),
                         .workspace = at[workspace],
                         .eps = 1e-5,
                         .momentum = 0.1,
                         .relu = true},
                        shape, stream);
  };
  return sized;
}

SizedCase forward_by_x(DType type, const BatchNorm2dShape& shape, bool adds) {
  return forward_of(type, shape, adds, false);
}
SizedCase forward_by_sums(DType type, const BatchNorm2dShape& shape, bool adds) {
  return forward_of(type, shape, adds, true);
}

SizedCase normalize_of(DType type, const BatchNorm2dShape& shape, bool adds) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, adds ? 3 : 2)};
  const auto x = sized.input(type, shape.rows * shape.channels), y = sized.output(type, shape.rows * shape.channels);
  const auto mean = sized.input(DType::f32, shape.channels), rstd = sized.input(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto addend = adds ? sized.input(type, shape.rows * shape.channels) : 0;
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_normalize(type,
                          {.x = at[x],
                           .y = at[y],
                           .addend = given(at, addend, adds),
                           .mean = at.as<const float>(mean),
                           .rstd = at.as<const float>(rstd),
                           .weight = at.as<const float>(weight),
                           .bias = at.as<const float>(bias),
                           .relu = true},
                          shape, stream);
  };
  return sized;
}

SizedCase inference_of(DType type, const BatchNorm2dShape& shape, bool adds) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, adds ? 3 : 2)};
  const auto x = sized.input(type, shape.rows * shape.channels), y = sized.output(type, shape.rows * shape.channels);
  const auto mean = sized.input(DType::f32, shape.channels), var = sized.input(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto addend = adds ? sized.input(type, shape.rows * shape.channels) : 0;
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_inference(type,
                          {.x = at[x],
                           .y = at[y],
                           .addend = given(at, addend, adds),
                           .running_mean = at.as<const float>(mean),
                           .running_var = at.as<const float>(var),
                           .weight = at.as<const float>(weight),
                           .bias = at.as<const float>(bias),
                           .eps = 1e-5,
                           .relu = true},
                          shape, stream);
  };
  return sized;
}

SizedCase backward_of(DType type, const BatchNorm2dShape& shape, bool adds) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, adds ? 7 : 5)};
  const auto dy = sized.input(type, shape.rows * shape.channels), x = sized.input(type, shape.rows * shape.channels);
  const auto dx = sized.output(type, shape.rows * shape.channels);
  const auto mean = sized.input(DType::f32, shape.channels), rstd = sized.input(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto dweight = sized.output(DType::f32, shape.channels), dbias = sized.output(DType::f32, shape.channels);
  const auto workspace = sized.scratch(batchnorm2d_backward_workspace_bytes(shape));
  const std::int64_t count = shape.rows * shape.channels;
  const auto y = adds ? sized.input(type, count) : 0, daddend = adds ? sized.output(type, count) : 0;
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_backward(type,
                         {.dy = at[dy],
                          .x = at[x],
                          .mean = at.as<const float>(mean),
                          .rstd = at.as<const float>(rstd),
                          .weight = at.as<const float>(weight),
                          .bias = at.as<const float>(bias),
                          .y = given(at, y, adds),
                          .dx = at[dx],
                          .daddend = adds ? at[daddend] : nullptr,
                          .dweight = at.as<float>(dweight),
                          .dbias = at.as<float>(dbias),
                          .workspace = at[workspace],
                          .relu = true},
                         shape, stream);
  };
  return sized;
}

SizedCase sums_of(DType type, const BatchNorm2dShape& shape, bool) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, 1)};
  const auto x = sized.input(type, shape.rows * shape.channels),
             sums = sized.output(DType::f64, 2 * shape.channels + 1);
  const auto workspace = sized.scratch(batchnorm2d_sums_workspace_bytes(shape));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_sums(type, {.x = at[x], .sums = at.as<double>(sums), .workspace = at[workspace]}, shape, stream);
  };
  return sized;
}

SizedCase gradient_sums_of(DType type, const BatchNorm2dShape& shape, bool) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, 2)};
  const auto dy = sized.input(type, shape.rows * shape.channels), x = sized.input(type, shape.rows * shape.channels);
  const auto mean = sized.input(DType::f32, shape.channels), rstd = sized.input(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto sums = sized.output(DType::f64, 2 * shape.channels + 1);
  const auto dweight = sized.output(DType::f32, shape.channels), dbias = sized.output(DType::f32, shape.channels);
  const auto workspace = sized.scratch(batchnorm2d_sums_workspace_bytes(shape));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_gradient_sums(type,
                              {.dy = at[dy],
                               .x = at[x],
                               .mean = at.as<const float>(mean),
                               .rstd = at.as<const float>(rstd),
                               .weight = at.as<const float>(weight),
                               .bias = at.as<const float>(bias),
                               .sums = at.as<double>(sums),
                               .dweight = at.as<float>(dweight),
                               .dbias = at.as<float>(dbias),
                               .workspace = at[workspace],
                               .relu = true},
                              shape, stream);
  };
  return sized;
}

SizedCase normalize_backward_of(DType type, const BatchNorm2dShape& shape, bool) {
  SizedCase sized{.shape = text_of(shape), .bytes = pass_bytes(type, shape, 3)};
  const auto dy = sized.input(type, shape.rows * shape.channels), x = sized.input(type, shape.rows * shape.channels);
  const auto dx = sized.output(type, shape.rows * shape.channels);
  const auto mean = sized.input(DType::f32, shape.channels), rstd = sized.input(DType::f32, shape.channels, 0.5, 2);
  const auto weight = sized.input(DType::f32, shape.channels), bias = sized.input(DType::f32, shape.channels);
  const auto sums = sized.input(DType::f64, 2 * shape.channels + 1, 1000, 2000);
  const auto workspace = sized.scratch(batchnorm2d_normalize_backward_workspace_bytes(shape));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    batchnorm2d_normalize_backward(type,
                                   {.dy = at[dy],
                                    .x = at[x],
                                    .mean = at.as<const float>(mean),
                                    .rstd = at.as<const float>(rstd),
                                    .weight = at.as<const float>(weight),
                                    .bias = at.as<const float>(bias),
                                    .sums = at.as<const double>(sums),
                                    .dx = at[dx],
                                    .workspace = at[workspace],
                                    .relu = true},
                                   shape, stream);
  };
  return sized;
}

/// Of ranks together; the units are channels.
void add_statistics_of_ranks(KernelCases& cases) {
  cases.push_back({.name = "batchnorm2d_statistics.2048",
                   .kernels = {"batchnorm2d_settle_statistics_kernel"},
                   .units = 2048,
                   .least_units = some_rows,
                   .grows = false,
                   .sized = [](std::int64_t channels, Library&) {
                     SizedCase sized{.shape = fmt::format("{}", channels), .bytes = channels * (16 + 24)};
                     const auto sums = sized.input(DType::f64, 2 * channels + 1, 1000, 2000);
                     const auto running_mean = sized.modified(DType::f32, channels);
                     const auto running_var = sized.modified(DType::f32, channels, 0.5, 2);
                     const auto mean = sized.output(DType::f32, channels), rstd = sized.output(DType::f32, channels);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       batchnorm2d_statistics({.sums = at.as<const double>(sums),
                                               .running_mean = at.as<float>(running_mean),
                                               .running_var = at.as<float>(running_var),
                                               .mean = at.as<float>(mean),
                                               .rstd = at.as<float>(rstd),
                                               .eps = 1e-5,
                                               .momentum = 0.1},
                                              channels, stream);
                     };
                     return sized;
                   }});
}

struct BatchNormLauncher {
  const char* name;
  SizeOfShape sized;
  std::vector<std::string> kernels, kernels_at_once;
  bool may_add = true;
};

std::vector<BatchNormLauncher> batchnorm_launchers() {
  const std::vector<std::string> forward_kernels = {"batchnorm2d_moments_kernel", "batchnorm2d_statistics_kernel",
                                                    "batchnorm2d_normalize_kernel"};
  return {{"batchnorm2d_forward", forward_by_x, forward_kernels, {"batchnorm2d_forward_at_once_kernel"}},
          {"batchnorm2d_forward_given_sums", forward_by_sums, forward_kernels, {}},
          {"batchnorm2d_normalize", normalize_of, {"batchnorm2d_normalize_kernel"}, {}},
          {"batchnorm2d_inference", inference_of, {"batchnorm2d_inference_kernel"}, {}},
          {"batchnorm2d_backward",
           backward_of,
           {"batchnorm2d_gradient_sums_kernel", "batchnorm2d_settle_gradients_kernel", "batchnorm2d_combine_kernel"},
           {"batchnorm2d_backward_at_once_kernel"}},
          {"batchnorm2d_sums", sums_of, {"batchnorm2d_moments_kernel", "batchnorm2d_add_moments_kernel"}, {}, false},
          {"batchnorm2d_gradient_sums",
           gradient_sums_of,
           {"batchnorm2d_gradient_sums_kernel", "batchnorm2d_add_gradient_sums_kernel"},
           {},
           false},
          {"batchnorm2d_normalize_backward",
           normalize_backward_of,
           {"batchnorm2d_settle_sums_kernel", "batchnorm2d_combine_kernel"},
           {},
           false}};
}

void add_batchnorm(KernelCases& cases, DType type, const BatchNormLauncher& launcher) {
  constexpr std::int64_t batch = 256, rows_of_three_launches = 1025;
  for (const BatchNormVariant& variant : batchnorm_variants) {
    const BatchNormPlace& place = variant.place;
    const bool adds = variant.adds;
    if (adds && !launcher.may_add) continue;
    cases.push_back({.name = case_name(launcher.name, type, std::string(place.name) + (adds ? ".addend" : "")),
                     .kernels = launcher.kernels,
                     .units = batch,
                     .least_units = rows_of_three_launches / place.pixels + 1,
                     .sized = [=, sized = launcher.sized](std::int64_t images, Library&) {
                       return sized(type, {images * place.pixels, place.channels}, adds);
                     }});
  }
  if (launcher.kernels_at_once.empty()) return;
  // The last stage at a batch of 64; the units are channels.
  cases.push_back({.name = case_name(launcher.name, type, "1024_rows"),
                   .kernels = launcher.kernels_at_once,
                   .units = 512,
                   .least_units = 40,
                   .sized = [=, sized = launcher.sized](std::int64_t channels, Library&) {
                     return sized(type, {1024, channels}, false);
                   }});
}

constexpr std::int64_t layernorm_columns[] = {768, 1024, 4096, 8192};

void add_layernorm(KernelCases& cases, DType type, std::int64_t columns, bool adds) {
  const std::string variant = fmt::format("{}{}", columns, adds ? ".addend" : "");
  cases.push_back({.name = case_name("layernorm_forward", type, variant),
                   .kernels = {"layernorm_forward_kernel"},
                   .units = 16384,
                   .least_units = some_rows,
                   .sized = [=](std::int64_t rows, Library&) {
                     SizedCase sized{.shape = fmt::format("{}x{}", rows, columns),
                                     .bytes = pass_bytes(type, {rows, columns}, adds ? 4 : 2)};
                     const auto x = sized.input(type, rows * columns), y = sized.output(type, rows * columns);
                     const auto weight = sized.input(DType::f32, columns), bias = sized.input(DType::f32, columns);
                     const auto mean = sized.output(DType::f32, rows), rstd = sized.output(DType::f32, rows);
                     const auto addend = adds ? sized.input(type, rows * columns) : 0;
                     const auto sum = adds ? sized.output(type, rows * columns) : 0;
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       layernorm_forward(type,
                                         {.x = at[x],
                                          .y = at[y],
                                          .addend = given(at, addend, adds),
                                          .sum = adds ? at[sum] : nullptr,
                                          .weight = at.as<const float>(weight),
                                          .bias = at.as<const float>(bias),
                                          .mean = at.as<float>(mean),
                                          .rstd = at.as<float>(rstd),
                                          .eps = 1e-5},
                                         {rows, columns}, stream);
                     };
                     return sized;
                   }});
  const bool is_one_pass = layernorm_backward_is_one_pass({some_rows, columns});
  const std::vector<std::string> one_pass = {"layernorm_backward_at_once_kernel", "layernorm_settle_gradients_kernel"};
  const std::vector<std::string> two_passes = {"layernorm_gradient_sums_kernel", "layernorm_settle_gradients_kernel",
                                               "layernorm_backward_kernel"};
  cases.push_back({.name = case_name("layernorm_backward", type, variant),
                   .kernels = is_one_pass ? one_pass : two_passes,
                   .units = 16384,
                   .least_units = some_rows,
                   .sized = [=](std::int64_t rows, Library&) {
                     const LayerNormShape shape{rows, columns};
                     const std::int64_t workspace_bytes = layernorm_gradient_workspace_bytes(shape);
                     const std::int64_t passes = (is_one_pass ? 3 : 5) + (adds ? 1 : 0);
                     SizedCase sized{.shape = fmt::format("{}x{}", rows, columns),
                                     .bytes = pass_bytes(type, {rows, columns}, passes) + 2 * workspace_bytes};
                     const auto dy = sized.input(type, rows * columns), x = sized.input(type, rows * columns);
                     const auto dx = sized.output(type, rows * columns);
                     const auto mean = sized.input(DType::f32, rows), rstd = sized.input(DType::f32, rows, 0.5, 2);
                     const auto weight = sized.input(DType::f32, columns);
                     const auto dweight = sized.output(DType::f32, columns), dbias = sized.output(DType::f32, columns);
                     const auto workspace = sized.scratch(workspace_bytes);
                     const auto added = adds ? sized.input(type, rows * columns) : 0;
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       layernorm_backward(type,
                                          {.dy = at[dy],
                                           .x = at[x],
                                           .mean = at.as<const float>(mean),
                                           .rstd = at.as<const float>(rstd),
                                           .weight = at.as<const float>(weight),
                                           .added_gradient = given(at, added, adds),
                                           .dx = at[dx],
                                           .dweight = at.as<float>(dweight),
                                           .dbias = at.as<float>(dbias),
                                           .workspace = at[workspace]},
                                          shape, stream);
                     };
                     return sized;
                   }});
}

void add_bias_gradient(KernelCases& cases, DType type, const BiasGradientOptions& options, const char* variant) {
  constexpr std::int64_t columns = 1024;
  cases.push_back({.name = case_name("bias_gradient", type, variant),
                   .kernels = {"bias_gradient_kernel", "combine_bias_gradient_kernel"},
                   .units = 16384,
                   .least_units = some_rows,
                   .sized = [=](std::int64_t rows, Library&) {
                     const std::int64_t workspace_bytes = bias_gradient_workspace_bytes(rows, columns);
                     SizedCase sized{.shape = fmt::format("{}x{}", rows, columns),
                                     .bytes = pass_bytes(type, {rows, columns}, 1) + 2 * workspace_bytes};
                     const DType result = options.f32_result ? DType::f32 : type;
                     const auto dy = sized.input(type, rows * columns);
                     const auto db = options.adds ? sized.modified(result, columns) : sized.output(result, columns);
                     const auto workspace = sized.scratch(workspace_bytes);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       bias_gradient(type, at[dy], at[db], rows, columns, at[workspace], stream, options);
                     };
                     return sized;
                   }});
}

/// Behind the transposed convolution of a U-Net that makes 128 × 128 pixels of 64 channels.
void add_bias_addition(KernelCases& cases, DType type) {
  constexpr std::int64_t columns = 64;
  cases.push_back(
      {.name = case_name("add_bias", type, "64"),
       .kernels = {"add_bias_kernel"},
       .units = 16 * 128 * 128,
       .least_units = some_rows,
       .sized = [=](std::int64_t rows, Library&) {
         SizedCase sized{.shape = fmt::format("{}x{}", rows, columns), .bytes = pass_bytes(type, {rows, columns}, 2)};
         const auto bias = sized.input(type, columns), y = sized.modified(type, rows * columns);
         sized.launch = [=](const OperandAddresses& at, Stream stream) {
           add_bias(type, at[bias], at[y], rows, columns, stream);
         };
         return sized;
       }});
}

}  // namespace

void add_normalization_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const BatchNormLauncher& launcher : batchnorm_launchers()) add_batchnorm(cases, type, launcher);
    for (const std::int64_t columns : layernorm_columns) add_layernorm(cases, type, columns, false);
    add_layernorm(cases, type, 1024, true);
    add_bias_gradient(cases, type, {}, "1024");
    add_bias_addition(cases, type);
  }
  add_bias_gradient(cases, DType::bf16, {.f32_result = true, .adds = true}, "1024.adds_f32");
  add_statistics_of_ranks(cases);
}

}  // namespace trainer::cuda
