#include <fmt/format.h>

#include "cuda/kernels/adaptive_avgpool2d.h"
#include "cuda/kernels/avgpool2d.h"
#include "cuda/kernels/global_avgpool.h"
#include "cuda/kernels/maxpool2d.h"
#include "cuda/kernels/pad.h"
#include "cuda/kernels/upsample.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

struct PoolPlace {
  const char* name;
  Pool2dShape one_image;
  std::int64_t batch;
};
const PoolPlace pool_places[] = {
    {"2x2_of_32x32x64", {1, 64, {32, 32}, {16, 16}, {2, 2}, {2, 2}, {0, 0}}, 256},
    {"3x3_of_112x112x64", {1, 64, {112, 112}, {56, 56}, {3, 3}, {2, 2}, {1, 1}}, 64},  // ImageNet's ResNets
};

Pool2dShape shape_of(const PoolPlace& place, std::int64_t images) {
  Pool2dShape shape = place.one_image;
  shape.images = images;
  return shape;
}

std::string text_of(const Pool2dShape& shape) {
  return fmt::format("{}x{}x{}x{}", shape.images, shape.x[0], shape.x[1], shape.channels);
}

std::int64_t bytes_of(DType type, std::int64_t count) { return count * static_cast<std::int64_t>(size_of(type)); }

/// Adds a case over images of `place`; `fill` gives it operands and the launch.
template <typename Fill>
void add_pool(KernelCases& cases, const char* launcher, DType type, const PoolPlace& place, bool has_indices,
              const Fill& fill) {
  cases.push_back({.name = case_name(launcher, type, place.name),
                   .kernels = {std::string(launcher) + "_kernel"},
                   .units = place.batch,
                   .least_units = 1,
                   .sized = [=](std::int64_t images, Library&) {
                     const Pool2dShape shape = shape_of(place, images);
                     SizedCase sized{.shape = text_of(shape),
                                     .bytes = bytes_of(type, shape.x_elements() + shape.y_elements()) +
                                              (has_indices ? shape.y_elements() : 0)};
                     fill(sized, shape);
                     return sized;
                   }});
}

void add_maxpool(KernelCases& cases, DType type, const PoolPlace& place) {
  add_pool(cases, "maxpool2d_forward", type, place, true, [type](SizedCase& sized, const Pool2dShape& shape) {
    const auto x = sized.input(type, shape.x_elements()), y = sized.output(type, shape.y_elements());
    const auto indices = sized.output(DType::u8, shape.y_elements());
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      maxpool2d_forward(type, at[x], at[y], at.as<std::uint8_t>(indices), true, shape, stream);
    };
  });
  add_pool(cases, "maxpool2d_backward", type, place, true, [type](SizedCase& sized, const Pool2dShape& shape) {
    const auto window = static_cast<double>(shape.kernel[0] * shape.kernel[1]);
    const auto dy = sized.input(type, shape.y_elements()), dx = sized.output(type, shape.x_elements());
    const auto indices = sized.input(DType::u8, shape.y_elements(), 0, window);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      maxpool2d_backward(type, at[dy], at.as<const std::uint8_t>(indices), at[dx], shape, stream);
    };
  });
}

void add_avgpool(KernelCases& cases, DType type, const PoolPlace& place) {
  add_pool(cases, "avgpool2d_forward", type, place, false, [type](SizedCase& sized, const Pool2dShape& shape) {
    const auto x = sized.input(type, shape.x_elements()), y = sized.output(type, shape.y_elements());
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      avgpool2d_forward(type, at[x], at[y], shape, true, stream);
    };
  });
  add_pool(cases, "avgpool2d_backward", type, place, false, [type](SizedCase& sized, const Pool2dShape& shape) {
    const auto dy = sized.input(type, shape.y_elements()), dx = sized.output(type, shape.x_elements());
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      avgpool2d_backward(type, at[dy], at[dx], shape, true, stream);
    };
  });
}

struct GlobalPoolPlace {
  const char* name;
  std::int64_t pixels, channels, batch;
};
constexpr GlobalPoolPlace global_pool_places[] = {{"4x4x512", 16, 512, 256}, {"7x7x2048", 49, 2048, 256}};

void add_global_avgpool(KernelCases& cases, DType type, const GlobalPoolPlace& place, bool forward) {
  const char* const launcher = forward ? "global_avgpool_forward" : "global_avgpool_backward";
  cases.push_back({.name = case_name(launcher, type, place.name),
                   .kernels = {std::string(launcher) + "_kernel"},
                   .units = place.batch,
                   .least_units = 3,
                   .sized = [=](std::int64_t images, Library&) {
                     const std::int64_t large = images * place.pixels * place.channels, small = images * place.channels;
                     SizedCase sized{.shape = fmt::format("{}x{}x{}", images, place.pixels, place.channels),
                                     .bytes = bytes_of(type, large + small)};
                     const auto from = sized.input(type, forward ? large : small),
                                to = sized.output(type, forward ? small : large);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       const auto launch = forward ? global_avgpool_forward : global_avgpool_backward;
                       launch(type, at[from], at[to], images, place.pixels, place.channels, stream);
                     };
                     return sized;
                   }});
}

/// From the features of an image of 224 × 224, or of 288 × 288, to the 7 × 7 that VGG's linear layers take.
struct ResizePlace {
  const char* name;
  ResizedShape one_image;
  std::int64_t batch;
};
const ResizePlace adaptive_places[] = {{"7x7.of_7x7x512", {1, 512, {7, 7}, {7, 7}}, 512},
                                       {"7x7.of_9x9x512", {1, 512, {9, 9}, {7, 7}}, 512}};

// In a U-Net's decoder, and before the first convolution of a network that mirrors its borders.
const ResizePlace upsample_places[] = {{"nearest.32x32x256", {1, 256, {32, 32}, {64, 64}}, 32},
                                       {"bilinear.32x32x256", {1, 256, {32, 32}, {64, 64}}, 32}};
const ResizePlace pad_places[] = {{"number.64x64x64", {1, 64, {64, 64}, {66, 66}}, 128},
                                  {"reflection.64x64x64", {1, 64, {64, 64}, {66, 66}}, 128}};

using ResizeLauncher = std::function<void(DType, const void*, void*, const ResizedShape&, Stream)>;

void add_resize(KernelCases& cases, const char* launcher, DType type, const ResizePlace& place, bool forward,
                const ResizeLauncher& launch) {
  cases.push_back({.name = case_name(launcher, type, place.name),
                   .kernels = {std::string(launcher) + "_kernel"},
                   .units = place.batch,
                   .least_units = 1,
                   .sized = [=](std::int64_t images, Library&) {
                     ResizedShape shape = place.one_image;
                     shape.images = images;
                     SizedCase sized{
                         .shape = fmt::format("{}x{}x{}x{}", images, shape.x[0], shape.x[1], shape.channels),
                         .bytes = bytes_of(type, shape.x_elements() + shape.y_elements())};
                     const auto from = sized.input(type, forward ? shape.x_elements() : shape.y_elements()),
                                to = sized.output(type, forward ? shape.y_elements() : shape.x_elements());
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       launch(type, at[from], at[to], shape, stream);
                     };
                     return sized;
                   }});
}

template <typename Options>
ResizeLauncher with_options(void (*launch)(DType, const void*, void*, const ResizedShape&, const Options&, Stream),
                            const Options& options) {
  return [=](DType type, const void* from, void* to, const ResizedShape& shape, Stream stream) {
    launch(type, from, to, shape, options, stream);
  };
}

}  // namespace

void add_pool_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const PoolPlace& place : pool_places) {
      add_maxpool(cases, type, place);
      add_avgpool(cases, type, place);
    }
    for (const ResizePlace& place : adaptive_places) {
      add_resize(cases, "adaptive_avgpool2d_forward", type, place, true, adaptive_avgpool2d_forward);
      add_resize(cases, "adaptive_avgpool2d_backward", type, place, false, adaptive_avgpool2d_backward);
    }
    for (const ResizePlace& place : upsample_places) {
      const UpsampleOptions options{.bilinear = place.name[0] == 'b', .scale = {2, 2}};
      add_resize(cases, "upsample_forward", type, place, true, with_options(upsample_forward, options));
      add_resize(cases, "upsample_backward", type, place, false, with_options(upsample_backward, options));
    }
    for (const ResizePlace& place : pad_places) {
      const PadOptions options{.border = place.name[0] == 'r' ? PadBorder::reflection : PadBorder::number,
                               .before = {1, 1}};
      add_resize(cases, "pad_forward", type, place, true, with_options(pad_forward, options));
      add_resize(cases, "pad_backward", type, place, false, with_options(pad_backward, options));
    }
    for (const GlobalPoolPlace& place : global_pool_places)
      for (const bool forward : {true, false}) add_global_avgpool(cases, type, place, forward);
  }
}

}  // namespace trainer::cuda
