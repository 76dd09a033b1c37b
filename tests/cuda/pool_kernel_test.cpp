#include <catch2/catch.hpp>
#include <optional>

#include "cuda/kernels/avgpool2d.h"
#include "cuda/kernels/global_avgpool.h"
#include "cuda/kernels/maxpool2d.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using Numbers = std::vector<double>;

std::size_t pool_index(std::int64_t index) { return static_cast<std::size_t>(index); }

Pool2dShape pooling(std::int64_t images, std::array<std::int64_t, 2> x, std::int64_t channels,
                    std::array<std::int64_t, 2> kernel, std::array<std::int64_t, 2> stride,
                    std::array<std::int64_t, 2> padding) {
  Pool2dShape shape{
      .images = images, .channels = channels, .x = x, .kernel = kernel, .stride = stride, .padding = padding};
  for (std::size_t i = 0; i < 2; ++i) shape.y[i] = (x[i] + 2 * padding[i] - kernel[i]) / stride[i] + 1;
  return shape;
}

// Windows that touch, overlap, leave gaps and a rest; square and not; padded up to a half; packs of channels and not.
const Pool2dShape pool_shapes[] = {
    pooling(1, {1, 1}, 1, {1, 1}, {1, 1}, {0, 0}),    pooling(2, {4, 6}, 3, {2, 2}, {2, 2}, {0, 0}),
    pooling(3, {5, 7}, 8, {2, 2}, {2, 2}, {0, 0}),    pooling(2, {7, 5}, 5, {3, 3}, {2, 2}, {1, 1}),
    pooling(2, {7, 5}, 16, {3, 3}, {2, 2}, {1, 1}),   pooling(1, {7, 8}, 4, {2, 1}, {3, 2}, {0, 0}),
    pooling(1, {5, 6}, 33, {1, 5}, {1, 1}, {0, 2}),   pooling(2, {9, 11}, 24, {5, 4}, {1, 3}, {2, 2}),
    pooling(1, {3, 3}, 2, {2, 2}, {3, 3}, {1, 1}),    pooling(1, {17, 19}, 8, {16, 16}, {1, 2}, {8, 8}),
    pooling(3, {14, 13}, 257, {2, 3}, {2, 3}, {0, 1})};

std::string text_of(const Pool2dShape& s, DType type) {
  return std::to_string(s.images) + "x" + std::to_string(s.x[0]) + "x" + std::to_string(s.x[1]) + "x" +
         std::to_string(s.channels) + " by " + std::to_string(s.kernel[0]) + "x" + std::to_string(s.kernel[1]) + ", " +
         std::string(name_of(type));
}

/// Calls visit(element of y, element of x, position in the window, elements of the window that count) for each element
/// of each window that lies in the image: first by a picture with its padding drawn around it.
template <typename Visit>
void for_each_window(const Pool2dShape& s, bool count_include_pad, Visit&& visit) {
  const auto [padded_height, padded_width] = std::array{s.x[0] + 2 * s.padding[0], s.x[1] + 2 * s.padding[1]};
  std::vector<std::optional<std::int64_t>> picture(pool_index(padded_height * padded_width));
  for (std::int64_t row = 0; row < s.x[0]; ++row)
    for (std::int64_t column = 0; column < s.x[1]; ++column)
      picture[pool_index((row + s.padding[0]) * padded_width + column + s.padding[1])] = row * s.x[1] + column;
  const std::int64_t outputs = s.y[0] * s.y[1];
  for (std::int64_t output = 0; output < outputs; ++output) {
    std::vector<std::pair<std::int64_t, std::int64_t>> window;
    for (std::int64_t position = 0; position < s.kernel[0] * s.kernel[1]; ++position) {
      const std::int64_t row = output / s.y[1] * s.stride[0] + position / s.kernel[1];
      const std::int64_t column = output % s.y[1] * s.stride[1] + position % s.kernel[1];
      if (const auto pixel = picture[pool_index(row * padded_width + column)]) window.emplace_back(position, *pixel);
    }
    const std::int64_t counted =
        count_include_pad ? s.kernel[0] * s.kernel[1] : static_cast<std::int64_t>(window.size());
    for (std::int64_t image = 0; image < s.images; ++image)
      for (const auto& [position, pixel] : window)
        for (std::int64_t channel = 0; channel < s.channels; ++channel)
          visit(pool_index((image * outputs + output) * s.channels + channel),
                pool_index((image * s.x[0] * s.x[1] + pixel) * s.channels + channel), static_cast<double>(position),
                static_cast<double>(counted));
  }
}

/// A third of the numbers are one of three, so that equals meet in a window.
Numbers numbers_with_equals(std::int64_t count, unsigned seed) {
  Numbers numbers = random_numbers(count, seed);
  for (std::size_t i = 0; i < numbers.size(); i += 3) numbers[i] = std::round(numbers[i]);
  return numbers;
}

struct Largest {
  Numbers values, positions;
};
Largest largest_of(const Pool2dShape& s, const Numbers& x) {
  Largest result{Numbers(pool_index(s.y_elements()), -HUGE_VAL), Numbers(pool_index(s.y_elements()), -1)};
  for_each_window(s, true, [&](std::size_t output, std::size_t element, double position, double) {
    const double best = result.values[output];
    const bool first_nan = std::isnan(x[element]) && !std::isnan(best);
    const bool first = result.positions[output] < 0;
    if (!first && !first_nan && !(x[element] > best)) return;
    result.values[output] = x[element];
    result.positions[output] = position;
  });
  return result;
}

void check_max(const Pool2dShape& shape, DType type, const Numbers& numbers, std::int64_t num_skipped = 0) {
  INFO(text_of(shape, type));
  const KernelTensor x(type, numbers, num_skipped);
  const Largest expected = largest_of(shape, x.values());
  const KernelTensor y(type, shape.y_elements()), indices(DType::u8, shape.y_elements());
  maxpool2d_forward(type, x.data(), y.data(), indices.data<std::uint8_t>(), false, shape, nullptr);
  CHECK((KernelTensor(type, expected.values) == y));
  CHECK((indices.values() == expected.positions));
  const KernelTensor y_alone(type, shape.y_elements());
  maxpool2d_forward(type, x.data(), y_alone.data(), nullptr, false, shape, nullptr);
  CHECK(y_alone == y);
  if (shape.kernel[0] * shape.kernel[1] > 255) return;
  Largest passed = expected;
  for (std::size_t i = 0; i < passed.values.size(); ++i) {
    if (!(passed.values[i] > 0)) passed.positions[i] = 255;
    if (passed.values[i] < 0) passed.values[i] = 0;
  }
  maxpool2d_forward(type, x.data(), y.data(), indices.data<std::uint8_t>(), true, shape, nullptr);
  CHECK((KernelTensor(type, passed.values) == y));
  CHECK((indices.values() == passed.positions));
  maxpool2d_forward(type, x.data(), y_alone.data(), nullptr, true, shape, nullptr);
  CHECK(y_alone == y);
}

TEST_CASE("images are pooled in ranges whose packs 32 bits can count, all of them and each once") {
  const Pool2dShape shape = pooling(10, {6, 4}, 16, {2, 2}, {2, 2}, {0, 0});  // 24 · 16 / 8 = 48 packs in an image's x
  const auto ranges_of = [&](std::int64_t most_packs) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for_each_image_range(shape, 8, most_packs,
                         [&](std::int64_t first, std::int64_t count) { ranges.emplace_back(first, count); });
    return ranges;
  };
  using Ranges = decltype(ranges_of(0));
  CHECK(ranges_of(most_pool_packs) == Ranges{{0, 10}});
  CHECK(ranges_of(480) == Ranges{{0, 10}});
  CHECK(ranges_of(479) == Ranges{{0, 9}, {9, 1}});
  CHECK(ranges_of(4 * 48) == Ranges{{0, 4}, {4, 4}, {8, 2}});
  CHECK(ranges_of(1).size() == 10);
  // Where windows overlap far into the padding, y has more packs than x.
  const Pool2dShape wider = pooling(4, {2, 2}, 8, {2, 2}, {1, 1}, {1, 1});
  std::int64_t num_ranges = 0;
  for_each_image_range(wider, 8, 2 * 9, [&](std::int64_t, std::int64_t) { ++num_ranges; });
  CHECK(num_ranges == 2);
}

TEST_CASE("max pooling finds the first largest element of every window and its position") {
  for (const DType type : element_types) {
    for (const Pool2dShape& shape : pool_shapes) {
      check_max(shape, type, numbers_with_equals(shape.x_elements(), 1));
      check_max(shape, type, Numbers(pool_index(shape.x_elements()), -HUGE_VAL));
    }
    check_max(pool_shapes[4], type, numbers_with_equals(pool_shapes[4].x_elements(), 2), 1);
  }
}

TEST_CASE("in max pooling the first NaN of a window wins") {
  for (const DType type : element_types) {
    for (const Pool2dShape& shape : pool_shapes) {
      Numbers x = numbers_with_equals(shape.x_elements(), 3);
      for (std::size_t i = 0; i < x.size(); i += 5) x[i] = NAN;
      check_max(shape, type, x);
    }
  }
}

TEST_CASE("max pooling's gradient goes where each window's largest element was") {
  for (const DType type : element_types) {
    for (const Pool2dShape& shape : pool_shapes) {
      for (const std::int64_t num_skipped : {0, 1}) {
        INFO(text_of(shape, type));
        const Largest largest = largest_of(shape, numbers_with_equals(shape.x_elements(), 1));
        const KernelTensor dy(type, random_numbers(shape.y_elements(), 9), num_skipped);
        const KernelTensor indices(DType::u8, largest.positions), dx(type, shape.x_elements());
        maxpool2d_backward(type, dy.data(), indices.data<std::uint8_t>(), dx.data(), shape, nullptr);
        const Numbers gradients = dy.values();
        Numbers expected(pool_index(shape.x_elements()));
        for_each_window(shape, true, [&](std::size_t output, std::size_t element, double position, double) {
          if (largest.positions[output] == position) expected[element] += gradients[output];
        });
        CHECK(difference(dx.values(), expected) < tolerance_of(type));
        const KernelTensor again(type, shape.x_elements());
        maxpool2d_backward(type, dy.data(), indices.data<std::uint8_t>(), again.data(), shape, nullptr);
        CHECK(again == dx);
      }
    }
  }
}

TEST_CASE("average pooling divides by the window, with its padding or without") {
  for (const DType type : element_types) {
    for (const Pool2dShape& shape : pool_shapes) {
      for (const bool count_include_pad : {true, false}) {
        for (const std::int64_t num_skipped : {0, 1}) {
          INFO(text_of(shape, type) << (count_include_pad ? ", padding counts" : ""));
          const KernelTensor x(type, random_numbers(shape.x_elements(), 1, -1, 2), num_skipped);
          const KernelTensor y(type, shape.y_elements());
          avgpool2d_forward(type, x.data(), y.data(), shape, count_include_pad, nullptr);
          const Numbers numbers = x.values();
          Numbers expected(pool_index(shape.y_elements()));
          for_each_window(shape, count_include_pad,
                          [&](std::size_t output, std::size_t element, double, double counted) {
                            expected[output] += numbers[element] / counted;
                          });
          CHECK(difference(y.values(), expected) < tolerance_of(type));

          const KernelTensor dy(type, random_numbers(shape.y_elements(), 9), num_skipped);
          const KernelTensor dx(type, shape.x_elements());
          avgpool2d_backward(type, dy.data(), dx.data(), shape, count_include_pad, nullptr);
          const Numbers gradients = dy.values();
          Numbers shares(pool_index(shape.x_elements()));
          for_each_window(shape, count_include_pad,
                          [&](std::size_t output, std::size_t element, double, double counted) {
                            shares[element] += gradients[output] / counted;
                          });
          CHECK(difference(dx.values(), shares) < tolerance_of(type));
        }
      }
    }
  }
}

struct Image {
  std::int64_t images, pixels, channels;
};

TEST_CASE("global average pooling and its gradient go over all pixels of every image") {
  for (const DType type : element_types) {
    for (const Image& s : {Image{1, 1, 1}, Image{3, 1, 1100}, Image{2, 49, 33}, Image{3, 16, 512}, Image{2, 1031, 3},
                           Image{5, 64, 257}, Image{1, 1025, 40}}) {
      for (const std::int64_t num_skipped : {0, 1}) {
        INFO(s.images << " images of " << s.pixels << " pixels, " << s.channels << " channels, " << name_of(type));
        const std::int64_t count = s.images * s.pixels * s.channels;
        const KernelTensor x(type, random_numbers(count, 1, -1, 2), num_skipped), y(type, s.images * s.channels);
        global_avgpool_forward(type, x.data(), y.data(), s.images, s.pixels, s.channels, nullptr);
        const KernelTensor dy(type, random_numbers(s.images * s.channels, 9), num_skipped), dx(type, count);
        global_avgpool_backward(type, dy.data(), dx.data(), s.images, s.pixels, s.channels, nullptr);
        const Numbers numbers = x.values(), gradients = dy.values();
        Numbers means(pool_index(s.images * s.channels)), shares;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const std::size_t mean =
              i / pool_index(s.pixels * s.channels) * pool_index(s.channels) + i % pool_index(s.channels);
          means[mean] += numbers[i] / static_cast<double>(s.pixels);
          shares.push_back(gradients[mean] / static_cast<double>(s.pixels));
        }
        CHECK(difference(y.values(), means) < tolerance_of(type));
        CHECK(difference(dx.values(), shares) < tolerance_of(type));
      }
    }
  }
}

}  // namespace
}  // namespace trainer::cuda
