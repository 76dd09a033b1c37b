#include <fmt/format.h>

#include <memory>

#include "cuda/kernels/depthwise_conv2d.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

/// Of one image, where not said otherwise of CIFAR's ResNet-18; images and windows are square.
struct ConvolutionPlace {
  const char* name;
  std::int64_t x_size, x_channels, y_channels, kernel, stride;
  std::int64_t groups = 1;
};
constexpr ConvolutionPlace convolution_places[] = {
    {"3to64.3x3.32x32", 32, 3, 64, 3, 1},     {"64to64.3x3.32x32", 32, 64, 64, 3, 1},
    {"64to128.3x3.16x16", 32, 64, 128, 3, 2}, {"128to128.3x3.16x16", 16, 128, 128, 3, 1},
    {"128to256.3x3.8x8", 16, 128, 256, 3, 2}, {"256to256.3x3.8x8", 8, 256, 256, 3, 1},
    {"256to512.3x3.4x4", 8, 256, 512, 3, 2},  {"512to512.3x3.4x4", 4, 512, 512, 3, 1},
    {"64to128.1x1.16x16", 32, 64, 128, 1, 2},
};

/// Of one image in MobileNetV2: what own kernels compute, and cuDNN for comparison.
constexpr ConvolutionPlace depthwise_places[] = {{"depthwise.192.3x3.28x28", 28, 192, 192, 3, 1, 192},
                                                 {"depthwise.144.3x3.28x28", 56, 144, 144, 3, 2, 144}};

constexpr const char* direction_names[] = {"forward", "input_gradient", "weight_gradient"};

ConvolutionCall call_of(const ConvolutionPlace& place, ConvolutionDirection direction, DType type,
                        std::int64_t images) {
  const std::int64_t padding = place.kernel / 2;
  const std::int64_t y_size = (place.x_size + 2 * padding - place.kernel) / place.stride + 1;
  return {.direction = direction,
          .type = type,
          .x = {images, place.x_size, place.x_size, place.x_channels},
          .y = {images, y_size, y_size, place.y_channels},
          .kernel = {place.kernel, place.kernel},
          .stride = {place.stride, place.stride},
          .padding = {padding, padding},
          .groups = place.groups,
          .workspace_limit = std::int64_t{256} << 20};
}

std::int64_t elements_of(const std::array<std::int64_t, 4>& image) { return image[0] * image[1] * image[2] * image[3]; }

/// The sums that the batch norm behind it could take: what they cost is the difference to the same without.
ConvolutionCall with_statistics(ConvolutionCall call) {
  call.statistics = true;
  return call;
}

SizedCase convolution_of(const ConvolutionCall& call, Library& library) {
  SizedCase sized{.shape = fmt::format("{}x{}x{}x{}", call.x[0], call.x[1], call.x[2], call.x[3])};
  const auto add = [&](ConvolutionDirection written_by, const std::array<std::int64_t, 4>& image) {
    return call.direction == written_by ? sized.output(call.type, elements_of(image))
                                        : sized.input(call.type, elements_of(image));
  };
  const auto x = add(ConvolutionDirection::input_gradient, call.x);
  const auto weights = add(ConvolutionDirection::weight_gradient, weights_of(call));
  const auto y = add(ConvolutionDirection::forward, call.y);
  for (const CaseOperand& operand : sized.operands) sized.bytes += operand.num_bytes();
  const auto sums = call.statistics ? sized.output(DType::f32, call.y[3]) : 0;
  const auto square_sums = call.statistics ? sized.output(DType::f32, call.y[3]) : 0;
  const auto workspace = sized.scratch(library.convolution_planner().workspace_bytes(call));
  const std::shared_ptr<Convolution> convolution = library.prepare(call);
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    convolution->run({.x = at[x],
                      .weights = at[weights],
                      .y = at[y],
                      .workspace = at[workspace],
                      .sums = call.statistics ? at.as<float>(sums) : nullptr,
                      .square_sums = call.statistics ? at.as<float>(square_sums) : nullptr},
                     stream);
  };
  return sized;
}

void add_convolution(KernelCases& cases, std::string name,
                     const std::function<ConvolutionCall(std::int64_t)>& of_images) {
  cases.push_back({.name = std::move(name),
                   .units = 256,
                   .least_units = 1,
                   .grows = false,
                   .moves_memory = false,
                   .has_candidates = true,
                   .sized = [of_images](std::int64_t images, Library& library) {
                     return convolution_of(of_images(images), library);
                   }});
}

}  // namespace

namespace {

struct DepthwiseLauncher {
  ConvolutionDirection direction;
  const char* name;
  std::vector<std::string> kernels;
};

SizedCase depthwise_of(const DepthwiseLauncher& launcher, const ConvolutionCall& call) {
  const DepthwiseShape shape{.images = call.x[0],
                             .channels = call.x[3],
                             .x = {call.x[1], call.x[2]},
                             .y = {call.y[1], call.y[2]},
                             .kernel = call.kernel,
                             .stride = call.stride,
                             .padding = call.padding};
  SizedCase sized{.shape = fmt::format("{}x{}x{}x{}", call.x[0], call.x[1], call.x[2], call.x[3])};
  const auto add = [&](ConvolutionDirection written_by, const std::array<std::int64_t, 4>& image) {
    return call.direction == written_by ? sized.output(call.type, elements_of(image))
                                        : sized.input(call.type, elements_of(image));
  };
  const auto x = add(ConvolutionDirection::input_gradient, call.x);
  const auto weights = add(ConvolutionDirection::weight_gradient, weights_of(call));
  const auto y = add(ConvolutionDirection::forward, call.y);
  for (const CaseOperand& operand : sized.operands) sized.bytes += operand.num_bytes();
  const bool sums = launcher.direction == ConvolutionDirection::weight_gradient;
  const std::int64_t workspace_bytes = sums ? depthwise_workspace_bytes(shape) : 0;
  sized.bytes += 2 * workspace_bytes;
  const auto workspace = sized.scratch(workspace_bytes);
  sized.launch = [=, type = call.type, direction = launcher.direction](const OperandAddresses& at, Stream stream) {
    switch (direction) {
      case ConvolutionDirection::forward:
        return depthwise_conv2d_forward(type, at[x], at[weights], nullptr, at[y], false, shape, stream);
      case ConvolutionDirection::input_gradient:
        return depthwise_conv2d_input_gradient(type, at[y], at[weights], at[x], shape, stream);
      case ConvolutionDirection::weight_gradient:
        return depthwise_conv2d_weight_gradient(type, at[y], at[x], at[weights], shape, at[workspace], stream);
    }
  };
  return sized;
}

void add_depthwise_cases(KernelCases& cases) {
  const DepthwiseLauncher launchers[] = {
      {ConvolutionDirection::forward, "forward", {"depthwise_conv2d_gather_kernel"}},
      {ConvolutionDirection::input_gradient, "input_gradient", {"depthwise_conv2d_gather_kernel"}},
      {ConvolutionDirection::weight_gradient,
       "weight_gradient",
       {"depthwise_conv2d_weight_sums_kernel", "depthwise_conv2d_combine_kernel"}}};
  for (const DType type : case_types)
    for (const ConvolutionPlace& place : depthwise_places)
      for (const DepthwiseLauncher& launcher : launchers)
        cases.push_back({.name = case_name(std::string("depthwise_conv2d_") + launcher.name, type, place.name),
                         .kernels = launcher.kernels,
                         .units = 256,
                         .least_units = 1,
                         .sized = [=](std::int64_t images, Library&) {
                           return depthwise_of(launcher, call_of(place, launcher.direction, type, images));
                         }});
}

}  // namespace

void add_convolution_cases(KernelCases& cases) {
  add_depthwise_cases(cases);
  for (const ConvolutionPlace& place : depthwise_places)
    for (const auto direction :
         {ConvolutionDirection::forward, ConvolutionDirection::input_gradient, ConvolutionDirection::weight_gradient})
      add_convolution(cases,
                      case_name(fmt::format("convolution_{}", direction_names[static_cast<int>(direction)]),
                                DType::bf16, place.name),
                      [=](std::int64_t images) { return call_of(place, direction, DType::bf16, images); });
  for (const DType type : {DType::f16, DType::bf16})
    for (const ConvolutionPlace& place : convolution_places)
      for (const auto direction : {ConvolutionDirection::forward, ConvolutionDirection::input_gradient,
                                   ConvolutionDirection::weight_gradient}) {
        const std::string launcher = fmt::format("convolution_{}", direction_names[static_cast<int>(direction)]);
        add_convolution(cases, case_name(launcher, type, place.name),
                        [=](std::int64_t images) { return call_of(place, direction, type, images); });
      }
  for (const ConvolutionPlace& place : convolution_places) {
    if (place.x_channels == 3) continue;  // cuDNN has no engine for it
    add_convolution(cases, case_name("convolution_statistics", DType::f16, place.name), [=](std::int64_t images) {
      return with_statistics(call_of(place, ConvolutionDirection::forward, DType::f16, images));
    });
  }
}

}  // namespace trainer::cuda
