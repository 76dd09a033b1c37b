// Kernels that compute each element on its own, in every element type, at sizes around their blocks and packs, with and
// without alignment.

#include <catch2/catch.hpp>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/add.h"
#include "cuda/kernels/dropout.h"
#include "cuda/kernels/normalize_pixels.h"
#include "engine/philox.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t counts[] = {1, 3, 4, 5, 7, 8, 9, 257, 1024, 1031, 2048, 2053};

/// Calls check(type, count, num_skipped) for each.
template <typename Check>
void for_each_layout(Check&& check) {
  for (const DType type : element_types) {
    for (const std::int64_t count : counts) {
      for (const std::int64_t num_skipped : {0, 1}) {
        INFO(name_of(type) << ", " << count << " elements behind " << num_skipped);
        check(type, count, num_skipped);
      }
    }
  }
}

struct Function {
  ActivationAttributes attributes;
  double (*f)(double);
  double (*slope)(double);  // from y or x
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
const double pi = std::acos(-1.0);
double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double tanh_part(double x) { return std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)); }

const Function functions[] = {
    {{Activation::relu}, [](double x) { return std::max(x, 0.0); }, [](double y) { return y > 0 ? 1.0 : 0.0; }},
    {{Activation::gelu},
     [](double x) { return x * normal_cdf(x); },
     [](double x) { return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi); }},
    {{Activation::gelu, GeluApproximation::tanh},
     [](double x) { return x / 2 * (1 + tanh_part(x)); },
     [](double x) {
       const double t = tanh_part(x);
       return (1 + t) / 2 + x / 2 * (1 - t * t) * std::sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
     }},
    {{Activation::silu},
     [](double x) { return x * sigmoid(x); },
     [](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }},
    {{Activation::tanh}, [](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; }},
    {{Activation::sigmoid}, sigmoid, [](double y) { return y * (1 - y); }},
    {{Activation::leaky_relu, GeluApproximation::none, 0.125},
     [](double x) { return x > 0 ? x : x / 8; },
     [](double y) { return y > 0 ? 1.0 : 0.125; }},
    {{Activation::relu6},
     [](double x) { return std::clamp(x, 0.0, 6.0); },
     [](double y) { return y > 0 && y < 6 ? 1.0 : 0.0; }},
    {{Activation::hardswish},
     [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; },
     [](double x) { return x <= -3 ? 0.0
                           : x < 3 ? x / 3 + 0.5
                                   : 1.0; }},
    {{Activation::hardsigmoid},
     [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; },
     [](double y) { return y > 0 && y < 1 ? 1.0 / 6 : 0.0; }},
};

}  // namespace

TEST_CASE("activations of every element type are those of their definition, beside x or over it") {
  for_each_layout([](DType type, std::int64_t count, std::int64_t num_skipped) {
    for (const Function& function : functions) {
      const KernelTensor x(type, random_numbers(count, 1, -5, 5), num_skipped), y(type, count, num_skipped);
      activation_forward(type, function.attributes, x.data(), y.data(), count, nullptr);
      Numbers expected;
      for (const double value : x.values()) expected.push_back(function.f(value));
      CHECK(difference(y.values(), expected) < tolerance_of(type));

      activation_forward(type, function.attributes, x.data(), x.data(), count, nullptr);
      CHECK((x == y));
    }
  });
}

TEST_CASE("gradients of activations of every element type are those of their definition, beside dy or over it") {
  for_each_layout([](DType type, std::int64_t count, std::int64_t num_skipped) {
    for (const Function& function : functions) {
      const KernelTensor dy(type, random_numbers(count, 1), num_skipped);
      const KernelTensor read(type, random_numbers(count, 2), num_skipped), dx(type, count, num_skipped);
      activation_backward(type, function.attributes, dy.data(), read.data(), dx.data(), count, nullptr);
      Numbers expected;
      for (const double value : read.values()) expected.push_back(dy.values()[expected.size()] * function.slope(value));
      CHECK(difference(dx.values(), expected) < tolerance_of(type));

      activation_backward(type, function.attributes, dy.data(), read.data(), dy.data(), count, nullptr);
      CHECK((dy == dx));
    }
  });
}

TEST_CASE("a sum, and the ReLU of a sum, over either of its terms") {
  for_each_layout([](DType type, std::int64_t count, std::int64_t num_skipped) {
    for (const bool relu : {false, true}) {
      const KernelTensor a(type, random_numbers(count, 1), num_skipped), b(type, random_numbers(count, 2), num_skipped);
      const KernelTensor y(type, count, num_skipped);
      add(type, relu, a.data(), b.data(), y.data(), count, nullptr);
      Numbers expected;
      for (const double value : a.values()) {
        const double sum = value + b.values()[expected.size()];
        expected.push_back(relu ? std::max(sum, 0.0) : sum);
      }
      CHECK(difference(y.values(), expected) < tolerance_of(type));

      const KernelTensor over_b(type, b.values(), num_skipped);
      add(type, relu, a.data(), over_b.data(), over_b.data(), count, nullptr);
      add(type, relu, a.data(), b.data(), a.data(), count, nullptr);
      CHECK((a == y));
      CHECK((over_b == y));
    }
  });
}

TEST_CASE("a sum of numbers of f64, also over its terms") {
  for (const std::int64_t count : {1, 255, 256, 257, 5003}) {
    const Numbers a = random_numbers(count, 1), b = random_numbers(count, 2);
    Numbers y(a.size(), -1), over_a = a, over_b = b, expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(a[i] + b[i]);
    add_doubles(a.data(), b.data(), y.data(), count, nullptr);
    add_doubles(over_a.data(), b.data(), over_a.data(), count, nullptr);
    add_doubles(a.data(), over_b.data(), over_b.data(), count, nullptr);
    CHECK(y == expected);
    CHECK(over_a == expected);
    CHECK(over_b == expected);
  }
}

TEST_CASE("NaN passes ReLU, and the ReLU of a sum") {
  for (const DType type : element_types) {
    const double nan = std::nan("");
    const KernelTensor x(type, Numbers{nan, 1, nan, -1, 2, nan, -2}), zeros(type, Numbers(7, 0.0)), y(type, 7);
    const Numbers expected = {nan, 1, nan, 0, 2, nan, 0};
    activation_forward(type, {Activation::relu}, x.data(), y.data(), 7, nullptr);
    CHECK(difference(y.values(), expected) == 0);
    add(type, true, x.data(), zeros.data(), y.data(), 7, nullptr);
    CHECK(difference(y.values(), expected) == 0);
  }
}

TEST_CASE("dropout keeps the elements that their numbers say, at the pass that the scalars hold when it runs") {
  for_each_layout([](DType type, std::int64_t count, std::int64_t num_skipped) {
    StepScalars scalars;
    constexpr std::int64_t of_sample = 7;
    for (const auto& [pass, first_sample] : {std::pair{0U, 0}, {1U, 0}, {0xFFFFFFFFU, 0}, {1U, 1}, {1U, 2}, {1U, 4}}) {
      scalars.seed = 0xFEDCBA9876543210ULL;
      scalars.pass = pass;
      scalars.first_sample = first_sample;
      const KernelTensor x(type, random_numbers(count, 1, 1, 2), num_skipped), y(type, count, num_skipped);
      // p = 0.25: 2^24 · p of the 2^24 numbers are below it.
      dropout(type, 7, 1U << 22, 4.0F / 3.0F, &scalars, x.data(), y.data(), of_sample, count, nullptr);
      const PhiloxStream philox{scalars.seed, 7, pass};
      Numbers expected;
      for (const double value : x.values())
        expected.push_back(philox.uniform(static_cast<std::uint64_t>(first_sample * of_sample) + expected.size()) >=
                                   0.25F
                               ? value / 0.75
                               : 0);
      CHECK(difference(y.values(), expected) < tolerance_of(type));

      dropout(type, 7, 1U << 22, 4.0F / 3.0F, &scalars, x.data(), x.data(), of_sample, count, nullptr);
      CHECK((x == y));
    }
  });
}

TEST_CASE("pixels are normalised by their channel, for any number of channels") {
  for (const DType type : element_types) {
    for (const std::int64_t channels : {1, 2, 3, 4, 5, 7, 64, 255, 256, 257, 600}) {
      for (const std::int64_t num_pixels : {1, 17, 349}) {
        for (const std::int64_t num_skipped : {0, 1}) {
          INFO(name_of(type) << ", " << num_pixels << " pixels of " << channels << " behind " << num_skipped);
          const std::int64_t count = num_pixels * channels;
          const KernelTensor pixels(DType::u8, random_numbers(count, 1, 0, 256), num_skipped);
          const KernelTensor y(type, count, num_skipped);
          std::vector<float> scale, offset;
          for (std::int64_t c = 0; c < channels; ++c) {
            scale.push_back(0.001F + 0.00001F * static_cast<float>(c));
            offset.push_back(-0.5F + 0.001F * static_cast<float>(c));
          }
          normalize_pixels(type, pixels.data<std::uint8_t>(), y.data(), num_pixels, scale, offset, nullptr);
          Numbers expected;
          for (const double pixel : pixels.values()) {
            const std::size_t channel = expected.size() % scale.size();
            expected.push_back(pixel * static_cast<double>(scale[channel]) + static_cast<double>(offset[channel]));
          }
          CHECK(difference(y.values(), expected) < tolerance_of(type));
        }
      }
    }
  }
}

}  // namespace trainer::cuda
