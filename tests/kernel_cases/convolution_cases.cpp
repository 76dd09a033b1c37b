#include <fmt/format.h>

#include <memory>

#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

/// Of one image of CIFAR's ResNet-18; images and windows are square.
struct ConvolutionPlace {
  const char* name;
  std::int64_t x_size, x_channels, y_channels, kernel, stride;
};
constexpr ConvolutionPlace convolution_places[] = {
    {"3to64.3x3.32x32", 32, 3, 64, 3, 1},     {"64to64.3x3.32x32", 32, 64, 64, 3, 1},
    {"64to128.3x3.16x16", 32, 64, 128, 3, 2}, {"128to128.3x3.16x16", 16, 128, 128, 3, 1},
    {"128to256.3x3.8x8", 16, 128, 256, 3, 2}, {"256to256.3x3.8x8", 8, 256, 256, 3, 1},
    {"256to512.3x3.4x4", 8, 256, 512, 3, 2},  {"512to512.3x3.4x4", 4, 512, 512, 3, 1},
    {"64to128.1x1.16x16", 32, 64, 128, 1, 2},
};

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

void add_convolution_cases(KernelCases& cases) {
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
