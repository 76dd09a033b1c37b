#include <algorithm>
#include <numeric>

#include "tests/op_cases/op_case.h"

namespace trainer {

namespace {

struct PoolCase {
  std::string name;
  TensorType x;
  Pool2dAttributes attributes;
};

std::vector<PoolCase> all_pool_cases() {
  const DType f32 = DType::f32;
  return {
      {"one pixel", {f32, {1, 1, 1, 1}}, {.kernel = {1, 1}, .stride = {1, 1}}},
      {"2x2", {f32, {2, 4, 6, 3}}, {}},
      {"2x2 leaves a rest", {f32, {2, 5, 7, 3}}, {}},
      {"64 channels", {f32, {1, 4, 4, 64}}, {}},
      {"relu", {f32, {2, 5, 7, 3}}, {.relu = true}},
      {"overlapping and padded, relu",
       {f32, {2, 7, 5, 67}},
       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .relu = true}},
      {"67 channels", {f32, {1, 2, 4, 67}}, {}},
      {"overlapping and padded", {f32, {2, 7, 5, 5}}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {"overlapping and padded, padding not counted",
       {f32, {2, 7, 5, 5}},
       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false}},
      {"stride beyond the window", {f32, {1, 7, 8, 2}}, {.kernel = {2, 1}, .stride = {3, 2}}},
      {"window of two shapes", {f32, {1, 5, 6, 3}}, {.kernel = {1, 5}, .stride = {1, 1}, .padding = {0, 2}}},
      {"2x2, the rest too", {f32, {2, 5, 7, 3}}, {.ceil_mode = true}},
      {"padded, windows beyond the padding",
       {f32, {2, 8, 6, 5}},
       {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1}, .ceil_mode = true}},
      {"padded, windows beyond the padding, padding not counted",
       {f32, {1, 8, 6, 16}},
       {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1}, .ceil_mode = true, .count_include_pad = false}},
      {"no window that begins behind the image",
       {f32, {1, 3, 5, 2}},
       {.kernel = {1, 1}, .stride = {4, 3}, .ceil_mode = true}},
      {"large enough for threads", {f32, {3, 20, 20, 16}}, {}},
  };
}

/// Calls visit(output, index of the element, position in the window) for each element of each window.
template <typename Visit>
void for_each_window(const PoolCase& c, Visit&& visit) {
  const Shape& x = c.x.shape;
  const Shape y = pooled_shape(x, c.attributes);
  const auto& a = c.attributes;
  std::size_t output = 0;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t row = 0; row < y[1]; ++row)
      for (std::int64_t column = 0; column < y[2]; ++column)
        for (std::int64_t channel = 0; channel < y[3]; ++channel, ++output)
          for (std::int64_t i = 0; i < a.kernel[0]; ++i)
            for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
              const std::int64_t h = row * a.stride[0] - a.padding[0] + i;
              const std::int64_t w = column * a.stride[1] - a.padding[1] + j;
              if (h < 0 || w < 0 || h >= x[1] || w >= x[2]) continue;
              visit(output, static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + channel),
                    static_cast<double>(i * a.kernel[1] + j));
            }
}

std::size_t num_outputs(const PoolCase& c) {
  return static_cast<std::size_t>(pooled_shape(c.x.shape, c.attributes).num_elements());
}

struct Largest {
  Values values, positions;
};
Largest max_reference(const PoolCase& c, const Values& x) {
  Largest result{Values(num_outputs(c), -1e300), Values(num_outputs(c))};
  for_each_window(c, [&](std::size_t output, std::size_t element, double position) {
    if (x[element] <= result.values[output]) return;
    result.values[output] = x[element];
    result.positions[output] = position;
  });
  for (std::size_t i = 0; i < result.values.size() && c.attributes.relu; ++i) {
    if (result.values[i] > 0) continue;
    result.values[i] = 0;
    result.positions[i] = no_position;
  }
  return result;
}

/// The elements of an output's window that lie in the image or its padding.
double whole_window(const PoolCase& c, std::size_t output) {
  const Shape y = pooled_shape(c.x.shape, c.attributes);
  const auto pixel = static_cast<std::int64_t>(output) / y[3];
  double count = 1;
  for (const auto& [axis, at] : {std::pair{0, pixel / y[2] % y[1]}, {1, pixel % y[2]}}) {
    const auto a = static_cast<std::size_t>(axis);
    double of_axis = 0;
    for (std::int64_t i = 0; i < c.attributes.kernel[a]; ++i)
      if (at * c.attributes.stride[a] + i < c.x.shape[1 + axis] + 2 * c.attributes.padding[a]) ++of_axis;
    count *= of_axis;
  }
  return count;
}

Reference average_reference(const PoolCase& c) {
  return [c](const std::vector<Values>& inputs) {
    Values sums(num_outputs(c)), counts(num_outputs(c));
    for_each_window(c, [&](std::size_t output, std::size_t element, double) {
      sums[output] += inputs[0][element];
      counts[output] += 1;
    });
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] /= c.attributes.count_include_pad ? whole_window(c, i) : counts[i];
    return sums;
  };
}

/// Some numbers repeat, so that the first of equals matters.
Values input_of(const PoolCase& c) {
  Values x = random_values(c.x, 1);
  for (std::size_t i = 0; i + 3 < x.size(); i += 5) x[i] = 2;
  return x;
}

/// Numbers from −1 to 1 at equal distances, in no order.
Values shuffled_numbers(std::int64_t count) {
  const Values order = random_values(count, 1);
  std::vector<std::size_t> positions(order.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::size_t one, std::size_t other) { return order[one] < order[other]; });
  Values values(order.size());
  for (std::size_t rank = 0; rank < positions.size(); ++rank)
    values[positions[rank]] = 2 * static_cast<double>(rank) / static_cast<double>(positions.size()) - 1;
  return values;
}

std::vector<TensorType> image_shapes() {
  const DType f32 = DType::f32;
  return {{f32, {1, 1, 1, 1}}, {f32, {2, 3, 5, 7}}, {f32, {3, 4, 4, 64}}, {f32, {5, 15, 17, 33}}};
}

Reference mean_reference(const Shape& x) {
  return [x](const std::vector<Values>& inputs) {
    const auto channels = static_cast<std::size_t>(x[3]);
    const auto pixels = static_cast<std::size_t>(x[1] * x[2]);
    Values y(static_cast<std::size_t>(x[0] * x[3]));
    for (std::size_t i = 0; i < inputs[0].size(); ++i)
      y[i / channels / pixels * channels + i % channels] += inputs[0][i] / static_cast<double>(pixels);
    return y;
  };
}

/// The channel-major order of each image: y[to] = x[from].
Values to_channel_major(const Shape& x, const Values& values, bool backward) {
  Values result(values.size());
  std::size_t flat = 0;
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t channel = 0; channel < x[3]; ++channel)
      for (std::int64_t pixel = 0; pixel < x[1] * x[2]; ++pixel, ++flat) {
        const auto image = static_cast<std::size_t>((n * x[1] * x[2] + pixel) * x[3] + channel);
        result[backward ? image : flat] = values[backward ? flat : image];
      }
  return result;
}

}  // namespace

std::vector<OpCase> maxpool2d_cases() {
  std::vector<OpCase> cases;
  for (PoolCase c : all_pool_cases()) {
    const Values x = input_of(c);
    const Largest expected = max_reference(c, x);
    cases.push_back({c.name, maxpool2d_op(c.x, c.attributes), {x}, {{expected.values, expected.positions}}});
    c.attributes.keep_indices = false;
    cases.push_back({c.name + ", no indices", maxpool2d_op(c.x, c.attributes), {x}, {{expected.values}}});
  }
  return cases;
}

std::vector<OpCase> maxpool2d_backward_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : all_pool_cases()) {
    const Values x = shuffled_numbers(c.x.num_elements());  // no equals: there the function has no derivative
    const Values dy = random_values(static_cast<std::int64_t>(num_outputs(c)), 9);
    const Reference f = [c](const std::vector<Values>& inputs) { return max_reference(c, inputs[0]).values; };
    if (x.size() > 2000) continue;
    cases.push_back({c.name,
                     maxpool2d_backward_op(maxpool2d_op(c.x, c.attributes)),
                     {dy, max_reference(c, x).positions},
                     {{finite_difference(f, {x}, 0, dy)}}});
  }
  return cases;
}

std::vector<OpCase> avgpool2d_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : all_pool_cases()) {
    const Values x = input_of(c);
    cases.push_back({c.name, avgpool2d_op(c.x, c.attributes), {x}, {{average_reference(c)({x})}}});
  }
  return cases;
}

std::vector<OpCase> avgpool2d_backward_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : all_pool_cases()) {
    const Values x = input_of(c);
    const Values dy = random_values(static_cast<std::int64_t>(num_outputs(c)), 9);
    if (x.size() > 2000) continue;
    cases.push_back({c.name,
                     avgpool2d_backward_op(avgpool2d_op(c.x, c.attributes)),
                     {dy},
                     {{finite_difference(average_reference(c), {x}, 0, dy)}}});
  }
  return cases;
}

std::vector<OpCase> global_avgpool_cases() {
  std::vector<OpCase> cases;
  for (const TensorType& x : image_shapes()) {
    const Values values = random_values(x, 1);
    cases.push_back({x.to_string(), global_avgpool_op(x), {values}, {{mean_reference(x.shape)({values})}}});
  }
  return cases;
}

std::vector<OpCase> global_avgpool_backward_cases() {
  std::vector<OpCase> cases;
  for (const TensorType& x : image_shapes()) {
    const Op op = global_avgpool_op(x);
    const Values dy = random_values(op.outputs[0], 9);
    const Values values = random_values(x, 1);
    if (values.size() > 4000) continue;
    cases.push_back({x.to_string(),
                     global_avgpool_backward_op(op),
                     {dy},
                     {{finite_difference(mean_reference(x.shape), {values}, 0, dy)}}});
  }
  return cases;
}

std::vector<OpCase> flatten_cases() {
  std::vector<OpCase> cases;
  for (const TensorType& x : image_shapes()) {
    const Values values = random_values(x, 1);
    cases.push_back({x.to_string(), flatten_op(x), {values}, {{to_channel_major(x.shape, values, false)}}});
  }
  return cases;
}

std::vector<OpCase> flatten_backward_cases() {
  std::vector<OpCase> cases;
  for (const TensorType& x : image_shapes()) {
    const Op op = flatten_op(x);
    const Values dy = random_values(op.outputs[0], 9);
    cases.push_back({x.to_string(), flatten_backward_op(op), {dy}, {{to_channel_major(x.shape, dy, true)}}});
  }
  return cases;
}

}  // namespace trainer
