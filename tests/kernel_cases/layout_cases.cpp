#include <fmt/format.h>

#include <array>

#include "cuda/kernels/begin_pass.h"
#include "cuda/kernels/normalize_pixels.h"
#include "cuda/kernels/transpose.h"
#include "engine/shape.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

struct TransposePlace {
  const char* name;
  const char* kernel;
  std::int64_t rows, columns, batch;
};
constexpr TransposePlace transpose_places[] = {
    {"512x512", "transpose_tile_kernel", 512, 512, 64},
    {"16x512", "transpose_tile_kernel", 16, 512, 256},  // flatten of ResNet-18's last image
    {"512x9", "transpose_narrow_kernel", 512, 9, 512},  // a convolution's weights
};

void add_transpose(KernelCases& cases, DType type, const TransposePlace& place) {
  cases.push_back({.name = case_name("transpose", type, place.name),
                   .kernels = {place.kernel},
                   .units = place.batch,
                   .least_units = 2,
                   .sized = [=](std::int64_t batch, Library&) {
                     const std::int64_t count = batch * place.rows * place.columns;
                     SizedCase sized{.shape = fmt::format("{}x{}x{}", batch, place.rows, place.columns),
                                     .bytes = 2 * count * static_cast<std::int64_t>(size_of(type))};
                     const auto x = sized.input(type, count), y = sized.output(type, count);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       transpose(type, at[x], at[y], batch, place.rows, place.columns, stream);
                     };
                     return sized;
                   }});
}

void add_normalize_pixels(KernelCases& cases, DType type) {
  cases.push_back({.name = case_name("normalize_pixels", type, "32x32x3"),
                   .kernels = {"normalize_pixels_kernel"},
                   .units = 4096,
                   .least_units = 2,
                   .sized = [=](std::int64_t images, Library&) {
                     const std::int64_t num_pixels = images * 32 * 32, count = num_pixels * 3;
                     SizedCase sized{.shape = fmt::format("{}x32x32x3", images),
                                     .bytes = count * (1 + static_cast<std::int64_t>(size_of(type)))};
                     const auto pixels = sized.input(DType::u8, count, 0, 256), y = sized.output(type, count);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       constexpr std::array<float, 3> scale = {0.017F, 0.0175F, 0.0174F}, offset = {-2.1F, -2, -1.8F};
                       normalize_pixels(type, at.as<const std::uint8_t>(pixels), at[y], num_pixels, scale, offset,
                                        stream);
                     };
                     return sized;
                   }});
}

void add_normalize_mixed_pixels(KernelCases& cases, DType type) {
  cases.push_back({.name = case_name("normalize_pixels", type, "32x32x3.mixed"),
                   .kernels = {"normalize_mixed_pixels_kernel"},
                   .units = 4096,
                   .least_units = 2,
                   .sized = [=](std::int64_t images, Library&) {
                     const std::int64_t count = images * 32 * 32 * 3;
                     SizedCase sized{.shape = fmt::format("{}x32x32x3", images),
                                     .bytes = count * (1 + static_cast<std::int64_t>(size_of(type)))};
                     const auto pixels = sized.input(DType::u8, count, 0, 256);
                     // Zeros: every sample is made of itself and of the first, which stays in the cache.
                     const auto mixing = sized.input(DType::i32, mixed_samples_type(images).num_elements(), 0, 1);
                     const auto y = sized.output(type, count);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       constexpr std::array<float, 3> scale = {0.017F, 0.0175F, 0.0174F}, offset = {-2.1F, -2, -1.8F};
                       normalize_mixed_pixels(type, at.as<const std::uint8_t>(pixels), at.as<const MixedSample>(mixing),
                                              at[y], {images, 32, 32}, scale, offset, stream);
                     };
                     return sized;
                   }});
}

/// Images and labels of a batch; at its own size it is about the time that a step begins with, and grown about the
/// rate.
void add_begin_pass(KernelCases& cases, const char* variant, bool grows) {
  cases.push_back(
      {.name = case_name("begin_pass", DType::u8, variant),
       .kernels = {"begin_pass_kernel"},
       .units = 256,
       .least_units = 3,
       .grows = grows,
       .sized = [](std::int64_t images, Library&) {
         const std::int64_t pixel_bytes = images * 32 * 32 * 3, label_bytes = images * 4;
         SizedCase sized{.shape = fmt::format("{}x32x32x3", images), .bytes = 2 * (pixel_bytes + label_bytes)};
         const auto pixels = sized.input(DType::u8, pixel_bytes, 0, 256);
         const auto labels = sized.input(DType::i32, images, 0, 10);
         const auto scalars = sized.output(DType::u8, sizeof(StepScalars));
         const auto to_pixels = sized.output(DType::u8, pixel_bytes);
         const auto to_labels = sized.output(DType::i32, images);
         sized.launch = [=](const OperandAddresses& at, Stream stream) {
           begin_pass({.seed = 7, .pass = 3, .learning_rate = 0.1, .update = 3}, at.as<StepScalars>(scalars),
                      {at[to_pixels], at[pixels], pixel_bytes}, {at[to_labels], at[labels], label_bytes}, stream);
         };
         return sized;
       }});
}

/// Four steps' places of scalars, the batch of add_begin_pass, and results. A device has them in host memory, which
/// takes longer; here they are operands like others.
struct FeedOfCase {
  std::int64_t pixel_bytes, label_bytes;
  static constexpr std::int64_t count = 4, input_offset = 64, result_bytes = 128;

  explicit FeedOfCase(std::int64_t images) : pixel_bytes(images * 32 * 32 * 3), label_bytes(images * 4) {}
  std::int64_t result_offset() const { return (input_offset + pixel_bytes + label_bytes + 63) / 64 * 64; }
  std::int64_t stride() const { return result_offset() + result_bytes; }
  FeedPlaces at(void* places) const {
    return {static_cast<std::byte*>(places), count, stride(), input_offset, result_offset()};
  }
};

std::size_t hold_step_count(SizedCase& sized, OperandRole role) {
  constexpr std::array<std::int64_t, 1> steps = {5};
  return sized.holding(role, DType::i64, std::as_bytes(std::span<const std::int64_t>(steps)));
}

void add_fed_step(KernelCases& cases) {
  cases.push_back({.name = case_name("begin_fed_step", DType::u8, "batch_of_256"),
                   .kernels = {"begin_fed_step_kernel"},
                   .units = 256,
                   .least_units = 3,
                   .grows = false,
                   .sized = [](std::int64_t images, Library&) {
                     const FeedOfCase feed(images);
                     SizedCase sized{.shape = fmt::format("{}x32x32x3", images),
                                     .bytes = 2 * (feed.pixel_bytes + feed.label_bytes)};
                     const auto places = sized.input(DType::u8, FeedOfCase::count * feed.stride(), 0, 256);
                     const auto steps = hold_step_count(sized, OperandRole::input);
                     const auto scalars = sized.output(DType::u8, sizeof(StepScalars));
                     const auto pixels = sized.output(DType::u8, feed.pixel_bytes);
                     const auto labels = sized.output(DType::u8, feed.label_bytes);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       begin_fed_step(feed.at(at[places]), at.as<const std::int64_t>(steps),
                                      at.as<StepScalars>(scalars), {at[pixels], 0, feed.pixel_bytes},
                                      {at[labels], feed.pixel_bytes, feed.label_bytes}, stream);
                     };
                     return sized;
                   }});
  cases.push_back(
      {.name = "end_fed_step", .kernels = {"end_fed_step_kernel"}, .grows = false, .sized = [](std::int64_t, Library&) {
         const FeedOfCase feed(1);
         constexpr std::int64_t num_statistics = 5, num_scale = 3;
         SizedCase sized{.shape = "1", .bytes = 2 * 8 * (num_statistics + num_scale)};
         const auto places = sized.modified(DType::u8, FeedOfCase::count * feed.stride(), 0, 256);
         const auto steps = hold_step_count(sized, OperandRole::modified);
         const auto statistics = sized.input(DType::f64, num_statistics);
         const auto scale = sized.input(DType::f64, num_scale);
         sized.launch = [=](const OperandAddresses& at, Stream stream) {
           end_fed_step(feed.at(at[places]), at.as<std::int64_t>(steps), {at[statistics], 8 * num_statistics},
                        {at[scale], 8 * num_scale}, stream);
         };
         return sized;
       }});
}

}  // namespace

void add_layout_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const TransposePlace& place : transpose_places) add_transpose(cases, type, place);
    add_normalize_pixels(cases, type);
    add_normalize_mixed_pixels(cases, type);
  }
  add_begin_pass(cases, "batch_of_256", false);
  add_begin_pass(cases, "rate", true);
  add_fed_step(cases);
}

}  // namespace trainer::cuda
