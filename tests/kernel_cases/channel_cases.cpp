// Kernels over images as rows of channels: gates, learned slopes, channels side by side.

#include <fmt/format.h>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/copy_channels.h"
#include "cuda/kernels/multiply.h"
#include "cuda/kernels/prelu.h"
#include "cuda/kernels/repeat_row.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

constexpr std::int64_t image_pixels = 28 * 28, image_channels = 240;  // of a gated block of MobileNetV3

/// Adds a case over images of (28, 28, 240); `fill` gives it operands and the launch.
template <typename Fill>
void add_image_case(KernelCases& cases, const char* launcher, DType type, std::string variant,
                    std::vector<std::string> kernels, std::int64_t passes, const Fill& fill) {
  cases.push_back({.name = case_name(launcher, type, variant),
                   .kernels = std::move(kernels),
                   .units = 128,
                   .least_units = 2,
                   .sized = [=](std::int64_t images, Library&) {
                     const std::int64_t count = images * image_pixels * image_channels;
                     SizedCase sized{.shape = fmt::format("{}x28x28x{}", images, image_channels),
                                     .bytes = passes * count * static_cast<std::int64_t>(size_of(type))};
                     fill(sized, images, count);
                     return sized;
                   }});
}

void add_gates(KernelCases& cases, DType type) {
  add_image_case(cases, "multiply_gate", type, "", {"multiply_gate_kernel"}, 2,
                 [type](SizedCase& sized, std::int64_t images, std::int64_t count) {
                   const auto x = sized.input(type, count), gate = sized.input(type, images * image_channels);
                   const auto y = sized.output(type, count);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     multiply_gate(type, at[x], at[gate], at[y], images, image_pixels, image_channels, stream);
                   };
                 });
  add_image_case(cases, "multiply_backward_gate", type, "", {"multiply_backward_gate_kernel"}, 2,
                 [type](SizedCase& sized, std::int64_t images, std::int64_t count) {
                   const auto dy = sized.input(type, count), x = sized.input(type, count);
                   const auto dgate = sized.output(type, images * image_channels);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     multiply_backward_gate(type, at[dy], at[x], at[dgate], images, image_pixels, image_channels,
                                            stream);
                   };
                 });
}

void add_prelu(KernelCases& cases, DType type) {
  for (const bool one : {true, false}) {
    const char* const variant = one ? "one_slope" : "slopes";
    const std::int64_t num = one ? 1 : image_channels;
    add_image_case(cases, "prelu_forward", type, variant, {"prelu_forward_kernel"}, 2,
                   [=](SizedCase& sized, std::int64_t images, std::int64_t count) {
                     const auto x = sized.input(type, count), weight = sized.input(DType::f32, num);
                     const auto y = sized.output(type, count);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       prelu_forward(type, at[x], at.as<const float>(weight), at[y],
                                     {images * image_pixels, image_channels, one}, stream);
                     };
                   });
    add_image_case(cases, "prelu_backward", type, variant, {"prelu_backward_kernel", "combine_prelu_gradient_kernel"},
                   3, [=](SizedCase& sized, std::int64_t images, std::int64_t count) {
                     const PreluShape shape{images * image_pixels, image_channels, one};
                     const auto dy = sized.input(type, count), x = sized.input(type, count);
                     const auto weight = sized.input(DType::f32, num);
                     const auto dx = sized.output(type, count), dweight = sized.output(DType::f32, num);
                     const auto workspace = sized.scratch(prelu_backward_workspace_bytes(shape));
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       prelu_backward(type, at[dy], at[x], at.as<const float>(weight), at[dx], at.as<float>(dweight),
                                      at[workspace], shape, stream);
                     };
                   });
  }
}

void add_placed_activation(KernelCases& cases, DType type) {
  add_image_case(cases, "placed_activation_forward", type, "relu", {"placed_activation_kernel"}, 2,
                 [type](SizedCase& sized, std::int64_t images, std::int64_t count) {
                   const auto x = sized.input(type, count), whole = sized.modified(type, 2 * count);
                   const auto offset = image_channels * static_cast<std::int64_t>(size_of(type));
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     placed_activation_forward(type, {Activation::relu}, at[x], at.as<std::byte>(whole) + offset,
                                               images * image_pixels, image_channels, 2 * image_channels, stream);
                   };
                 });
}

/// The second of two tensors that lie side by side: as concat has it, and its gradient.
void add_copies(KernelCases& cases, DType type) {
  constexpr std::int64_t of_row = 2 * image_channels;
  const auto add = [&](const char* variant, bool slices) {
    add_image_case(cases, "copy_channels", type, variant, {"copy_channels_kernel"}, 2,
                   [=](SizedCase& sized, std::int64_t images, std::int64_t count) {
                     const auto whole = slices ? sized.input(type, 2 * count) : sized.modified(type, 2 * count);
                     const auto part = slices ? sized.output(type, count) : sized.input(type, count);
                     const ChannelRange of_whole{of_row, image_channels}, of_part{image_channels};
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       const std::int64_t rows = images * image_pixels;
                       if (slices)
                         copy_channels(type, at[whole], of_whole, at[part], of_part, rows, image_channels, stream);
                       else
                         copy_channels(type, at[part], of_part, at[whole], of_whole, rows, image_channels, stream);
                     };
                   });
  };
  add("side_by_side", false);
  add("slice", true);
  add_image_case(cases, "expand_channels", type, "", {"expand_channels_kernel"}, 3,
                 [=](SizedCase& sized, std::int64_t images, std::int64_t count) {
                   const auto part = sized.input(type, count), whole = sized.output(type, 2 * count);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     expand_channels(type, at[part], at[whole], {of_row, image_channels}, images * image_pixels,
                                     image_channels, stream);
                   };
                 });
}

/// Of class tokens: rows are samples.
void add_rows(KernelCases& cases, DType type) {
  constexpr std::int64_t columns = 768;
  const auto add = [&](const char* launcher, const char* kernel, bool sums) {
    cases.push_back({.name = case_name(launcher, type, ""),
                     .kernels = {kernel},
                     .units = 4096,
                     .least_units = 3,
                     .sized = [=](std::int64_t rows, Library&) {
                       SizedCase sized{.shape = fmt::format("{}x{}", rows, columns),
                                       .bytes = rows * columns * static_cast<std::int64_t>(size_of(type))};
                       const auto from = sized.input(type, sums ? rows * columns : columns);
                       const auto to = sized.output(type, sums ? columns : rows * columns);
                       sized.launch = [=](const OperandAddresses& at, Stream stream) {
                         if (sums)
                           sum_rows(type, at[from], at[to], rows, columns, stream);
                         else
                           repeat_row(type, at[from], at[to], rows, columns, stream);
                       };
                       return sized;
                     }});
  };
  add("repeat_row", "repeat_row_kernel", false);
  add("sum_rows", "sum_rows_kernel", true);
}

}  // namespace

void add_channel_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    add_gates(cases, type);
    add_prelu(cases, type);
    add_copies(cases, type);
    add_rows(cases, type);
    add_placed_activation(cases, type);
  }
}

}  // namespace trainer::cuda
