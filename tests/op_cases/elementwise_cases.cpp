#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/philox.h"
#include "tests/op_cases/mixed_values.h"
#include "tests/op_cases/op_case.h"
#include "tests/op_cases/placed_cases.h"

namespace trainer {

namespace {

struct NamedFunction {
  std::string name;
  ActivationAttributes attributes;
  double (*f)(double);
};

std::vector<NamedFunction> functions() {
  const auto none = GeluApproximation::none;
  return {
      {"relu", {Activation::relu, none}, [](double x) { return x > 0 ? x : 0; }},
      {"gelu", {Activation::gelu, none}, [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
      {"gelu tanh",
       {Activation::gelu, GeluApproximation::tanh},
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
       }},
      {"silu", {Activation::silu, none}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"tanh", {Activation::tanh, none}, [](double x) { return std::tanh(x); }},
      {"sigmoid", {Activation::sigmoid, none}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"leaky_relu", {Activation::leaky_relu, none, 0.125}, [](double x) { return x > 0 ? x : 0.125 * x; }},
      {"falling leaky_relu", {Activation::leaky_relu, none, -0.5}, [](double x) { return x > 0 ? x : -0.5 * x; }},
      {"relu6", {Activation::relu6, none}, [](double x) { return std::clamp(x, 0.0, 6.0); }},
      {"hardswish", {Activation::hardswish, none}, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {"hardsigmoid", {Activation::hardsigmoid, none}, [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; }},
  };
}

Reference each(double (*f)(double)) {
  return [f](const std::vector<Values>& inputs) {
    Values y;
    for (const double x : inputs[0]) y.push_back(f(x));
    return y;
  };
}

std::vector<TensorType> shapes() {
  const DType f32 = DType::f32;
  return {{f32, {1, 1}}, {f32, {3, 7}}, {f32, {2, 3, 5, 7}}, {f32, {131, 257}}};
}

Values rounded(Values values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  return values;
}

DropoutAttributes dropout_attributes(double p) { return {.p = p, .stream = 3}; }
StepScalars dropout_scalars() { return {.seed = 0x123456789ABCDEFULL, .pass = 5}; }

Values dropped(const Values& x, double p) {
  const PhiloxStream stream{dropout_scalars().seed, dropout_attributes(p).stream, dropout_scalars().pass};
  Values y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool kept = stream.uniform(i) >= static_cast<float>(p);
    y.push_back(kept ? x[i] / (1 - p) : 0);
  }
  return y;
}

/// Where differences to both sides tell nothing; kink_cases() does.
bool is_near_kink(Activation function, double x) {
  const auto is_near = [x](double kink) { return std::fabs(x - kink) < 1e-3; };
  switch (function) {
    case Activation::relu:
    case Activation::leaky_relu:
      return is_near(0);
    case Activation::relu6:
      return is_near(0) || is_near(6);
    case Activation::hardswish:
    case Activation::hardsigmoid:
      return is_near(-3) || is_near(3);
    case Activation::gelu:
    case Activation::silu:
    case Activation::tanh:
    case Activation::sigmoid:
      return false;
  }
  return false;
}

/// Where a function has a kink, and its gradient there, which PyTorch 2.5 computed.
struct Kinks {
  ActivationAttributes attributes;
  Values x, slopes;
};

std::vector<OpCase> kink_cases() {
  const auto none = GeluApproximation::none;
  const std::vector<Kinks> all = {{{Activation::relu, none}, {0, 1}, {0, 1}},
                                  {{Activation::leaky_relu, none, 0.125}, {0, -1}, {0.125, 0.125}},
                                  {{Activation::relu6, none}, {0, 6, 3}, {0, 0, 1}},
                                  {{Activation::hardswish, none}, {-3, 3, 0}, {0, 1, 0.5}},
                                  {{Activation::hardsigmoid, none}, {-3, 3, 0}, {0, 0, 1.0 / 6}}};
  std::vector<OpCase> cases;
  for (const Kinks& kinks : all) {
    const TensorType type{DType::f32, {static_cast<std::int64_t>(kinks.x.size())}};
    Values read = kinks.x;
    for (const NamedFunction& function : functions())
      if (function.attributes == kinks.attributes && gradient_reads_output(kinks.attributes))
        read = each(function.f)({kinks.x});
    cases.push_back({"at kinks",
                     activation_backward_op(type, kinks.attributes),
                     {Values(kinks.x.size(), 1), read},
                     {{kinks.slopes}}});
    cases.back().tolerance = 1e-6;
  }
  return cases;
}

struct PreluCase {
  TensorType x;
  std::int64_t num;
};

std::vector<PreluCase> prelu_shapes() {
  std::vector<PreluCase> all;
  for (const TensorType& type : shapes())
    for (const std::int64_t num : {std::int64_t{1}, type.shape[-1]})
      if (num > 1 || all.empty() || all.back().x != type) all.push_back({type, num});
  all.push_back({{DType::f32, {3, 13, 11, 16}}, 16});
  return all;
}

Reference prelu_of(const PreluCase& of) {
  return [of](const std::vector<Values>& inputs) {
    Values y = inputs[0];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] <= 0) y[i] *= inputs[1][i % static_cast<std::size_t>(of.num)];
    return y;
  };
}

std::vector<OpCase> dropout_cases_of(bool backward) {
  std::vector<OpCase> cases;
  for (const double p : {0.0, 0.1, 0.5, 0.75, 1.0}) {
    for (const TensorType& type : shapes()) {
      const Values x = random_values(type, 1);
      const Op forward = dropout_op(type, dropout_attributes(p));
      // Its gradient is itself: linear, with a diagonal matrix.
      cases.push_back({"p " + std::to_string(p) + ", " + type.to_string(),
                       backward ? dropout_backward_op(forward) : forward,
                       {x},
                       {{dropped(x, p)}},
                       dropout_scalars()});
    }
  }
  // Columns of a larger tensor, with its numbers.
  for (const auto& [rows, own, all, first] :
       {std::array<std::int64_t, 4>{7, 5, 13, 3}, {3, 64, 128, 64}, {2, 1, 2, 1}, {31, 67, 201, 134}}) {
    const TensorType type{DType::f32, {rows, own}}, whole{DType::f32, {rows, all}};
    DropoutAttributes attributes = dropout_attributes(0.4);
    attributes.all_columns = all;
    attributes.first_column = first;
    const Op forward = dropout_op(type, attributes);
    Values x;
    const Values all_x = random_values(whole, 1), all_y = dropped(all_x, 0.4);
    Values y;
    for (std::int64_t i = 0; i < rows * own; ++i) {
      const auto at = static_cast<std::size_t>(i / own * all + first + i % own);
      x.push_back(all_x[at]);
      y.push_back(all_y[at]);
    }
    cases.push_back({"columns of " + whole.to_string() + ", " + type.to_string(),
                     backward ? dropout_backward_op(forward) : forward,
                     {x},
                     {{y}},
                     dropout_scalars()});
  }
  // Rows of a larger tensor.
  for (const auto& [own, columns, all, first] :
       {std::array<std::int64_t, 4>{3, 5, 9, 3}, {64, 64, 128, 64}, {1, 67, 4, 3}}) {
    const TensorType type{DType::f32, {own, columns}}, whole{DType::f32, {all, columns}};
    DropoutAttributes attributes = dropout_attributes(0.4);
    attributes.sample_rows = all;
    attributes.first_row = first;
    const Op forward = dropout_op(type, attributes);
    const Values all_x = random_values(whole, 1), all_y = dropped(all_x, 0.4);
    const auto rows_of = [&, first = first, own = own, columns = columns](const Values& values) {
      return Values(values.begin() + first * columns, values.begin() + (first + own) * columns);
    };
    cases.push_back({"rows of " + whole.to_string() + ", " + type.to_string(),
                     backward ? dropout_backward_op(forward) : forward,
                     {rows_of(all_x)},
                     {{rows_of(all_y)}},
                     dropout_scalars()});
  }
  return cases;
}

}  // namespace

std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  for (const NamedFunction& function : functions()) {
    for (const TensorType& type : shapes()) {
      Values x = random_values(type, 1, -12, 12);
      x[0] = 0;
      cases.push_back({function.name + ", " + type.to_string(),
                       activation_op(type, function.attributes),
                       {x},
                       {{each(function.f)({x})}}});
      cases.back().tolerance = 1e-6;
    }
    // Far out nothing overflows.
    const Values x = {-1e30, -200, -104.5, -90, -88, -30, -1e-6, 1e-6, 30, 88, 90, 200, 1e4};
    const TensorType type{DType::f32, {static_cast<std::int64_t>(x.size())}};
    const Values exact = rounded(x);
    cases.push_back({function.name + ", far out",
                     activation_op(type, function.attributes),
                     {exact},
                     {{each(function.f)({exact})}}});
    cases.back().tolerance = 1e-6;
  }
  std::vector<OpCase> placed;
  for (const OpCase& c : cases)
    if (c.name.starts_with("relu,") || c.name.starts_with("silu,")) placed.push_back(c);
  const std::size_t num_unplaced = placed.size();
  append_placed(placed);
  cases.insert(cases.end(), placed.begin() + static_cast<std::ptrdiff_t>(num_unplaced), placed.end());
  return cases;
}

std::vector<OpCase> activation_backward_cases() {
  std::vector<OpCase> cases;
  for (const NamedFunction& function : functions()) {
    for (const TensorType& type : shapes()) {
      if (type.num_elements() > 1000) continue;
      const Values x = random_values(type, 1, -6, 6);
      const Values dy = random_values(type, 9);
      const Reference f = each(function.f);
      const Values read = gradient_reads_output(function.attributes) ? rounded(f({x})) : x;
      Values expected = finite_difference(f, {x}, 0, dy);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (is_near_kink(function.attributes.function, x[i])) expected[i] = std::nan("");
      cases.push_back({function.name + ", " + type.to_string(),
                       activation_backward_op(type, function.attributes),
                       {dy, read},
                       {{expected}}});
      cases.back().tolerance = 2e-6;
    }
  }
  for (OpCase& c : kink_cases()) cases.push_back(std::move(c));
  return cases;
}

std::vector<OpCase> prelu_cases() {
  std::vector<OpCase> cases;
  for (const PreluCase& of : prelu_shapes()) {
    Values x = random_values(of.x, 1);
    x[0] = 0;
    const Values weight = random_values(of.num, 2);
    cases.push_back({of.x.to_string() + ", " + std::to_string(of.num),
                     prelu_op(of.x, of.num),
                     {x, weight},
                     {{prelu_of(of)({x, weight})}}});
    cases.back().tolerance = 1e-6;
  }
  return cases;
}

std::vector<OpCase> prelu_backward_cases() {
  std::vector<OpCase> cases;
  for (const PreluCase& of : prelu_shapes()) {
    const Values x = random_values(of.x, 1), weight = random_values(of.num, 2), dy = random_values(of.x, 3);
    const Reference f = prelu_of(of);
    cases.push_back({of.x.to_string() + ", " + std::to_string(of.num),
                     prelu_backward_op(prelu_op(of.x, of.num)),
                     {dy, x, weight},
                     {{finite_difference(f, {x, weight}, 0, dy), finite_difference(f, {x, weight}, 1, dy)}}});
    cases.back().tolerance = 5e-5;
  }
  // At 0 the slope is that below it.
  cases.push_back({"at 0",
                   prelu_backward_op(prelu_op({DType::f32, {2, 2}}, 2)),
                   {{1, 2, 3, 4}, {0, 0, -1, 5}, {0.25, 0.5}},
                   {{{0.25, 1, 0.75, 4}, {-3, 0}}}});
  return cases;
}

std::vector<OpCase> add_cases() {
  std::vector<OpCase> cases;
  for (const TensorType& type : shapes()) {
    for (const bool relu : {false, true}) {
      const Values a = random_values(type, 1);
      const Values b = random_values(type, 2);
      Values y;
      for (std::size_t i = 0; i < a.size(); ++i) y.push_back(relu && a[i] + b[i] < 0 ? 0 : a[i] + b[i]);
      cases.push_back({type.to_string() + (relu ? ", relu" : ""), add_op(type, {.relu = relu}), {a, b}, {{y}}});
    }
  }
  return cases;
}

std::vector<OpCase> dropout_cases() { return dropout_cases_of(false); }
std::vector<OpCase> dropout_backward_cases() { return dropout_cases_of(true); }

namespace {

/// Blended, with boxes in the middle, at an edge, of all and of nothing, and whole.
std::vector<MixedSample> mixed_images(const Shape& shape) {
  const auto height = static_cast<std::int32_t>(shape[1]), width = static_cast<std::int32_t>(shape[2]);
  const std::vector<MixedSample> kinds = {
      {.blend = 0.25F},
      {.top = height / 3, .left = width / 4, .bottom = height - 1, .right = width},
      {.bottom = height, .right = width},
      {.blend = 0.5F, .left = width / 2, .bottom = 1, .right = width / 2},
      {},
  };
  std::vector<MixedSample> samples;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    samples.push_back(kinds[static_cast<std::size_t>(i + shape[2]) % kinds.size()]);
    samples.back().partner = static_cast<std::int32_t>((i + shape[0] - 1) % shape[0]);
  }
  return samples;
}

Values normalized_mixture(const Shape& shape, const NormalizePixelsAttributes& attributes, const Values& pixels,
                          const std::vector<MixedSample>& samples) {
  Values y;
  const auto pixel = [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
    return pixels[static_cast<std::size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c)];
  };
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t w = 0; w < shape[2]; ++w)
        for (std::int64_t c = 0; c < shape[3]; ++c) {
          const MixedSample& mixed = samples[static_cast<std::size_t>(n)];
          const bool is_in_box = mixed.top <= h && h < mixed.bottom && mixed.left <= w && w < mixed.right;
          const double share = is_in_box ? 0 : static_cast<double>(mixed.blend);
          const double value = share * pixel(n, h, w, c) + (1 - share) * pixel(mixed.partner, h, w, c);
          const auto channel = static_cast<std::size_t>(c);
          y.push_back(value * static_cast<double>(attributes.scale[channel]) +
                      static_cast<double>(attributes.offset[channel]));
        }
  return y;
}

}  // namespace

std::vector<OpCase> normalize_pixels_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{2, 5, 7, 3}, Shape{3, 40, 41, 1}, Shape{2, 90, 60, 4}}) {
    NormalizePixelsAttributes attributes;
    for (std::int64_t c = 0; c < shape[3]; ++c) {
      attributes.scale.push_back(0.01F + 0.002F * static_cast<float>(c));
      attributes.offset.push_back(-0.5F - 0.125F * static_cast<float>(c));
    }
    const TensorType type{DType::u8, shape};
    Values pixels = random_values(type, 1, 0, 256);
    Values y;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = std::min(std::floor(pixels[i]), 255.0);
      const std::size_t channel = i % attributes.scale.size();
      y.push_back(pixels[i] * static_cast<double>(attributes.scale[channel]) +
                  static_cast<double>(attributes.offset[channel]));
    }
    cases.push_back({type.to_string(), normalize_pixels_op(type, attributes), {pixels}, {{y}}});
    cases.back().tolerance = 1e-6;
    const std::vector<MixedSample> samples = mixed_images(shape);
    cases.push_back({type.to_string() + ", mixed",
                     normalize_pixels_op(type, attributes, true),
                     {pixels, mixed_values(samples)},
                     {{normalized_mixture(shape, attributes, pixels, samples)}}});
    cases.back().tolerance = 1e-6;
  }
  return cases;
}

}  // namespace trainer
