#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/philox.h"
#include "tests/op_cases/short_numbers.h"
#include "tests/op_cases/update_formats.h"

namespace trainer {

namespace {

constexpr double not_compared = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t seed = 99;
constexpr std::int64_t update = 7;
constexpr double learning_rate = 0.05, clip_factor = 0.25, num_skipped = 2;

/// The last is larger than what a thread or a block of moments takes at a time.
const std::vector<Shape> parameter_shapes = {{1}, {3, 5}, {257}, {1031}, {4099}};

struct Combination {
  std::string name;
  UpdateFormat format;
  bool eight_bit = false;
};

std::vector<Combination> combinations() {
  const DType f16 = DType::f16, bf16 = DType::bf16;
  const std::vector<std::uint32_t> streams = {11, 12, 13, 14, 15};
  std::vector<Combination> all = {
      {"f16 gradients", {.gradients = f16}},
      {"bf16 gradients", {.gradients = bf16}},
      {"f16 copies", {.copies = f16}},
      {"f16, scaled", {.factored = true, .scaled = true, .gradients = f16, .copies = f16}},
      {"bf16, clipped", {.factored = true, .gradients = bf16, .copies = bf16}},
      {"bf16 weights", {.random_streams = streams}},
      {"bf16 weights and gradients", {.factored = true, .gradients = bf16, .random_streams = streams}},
      {"bf16 weights, f16 copies", {.gradients = f16, .copies = f16, .random_streams = streams}},
  };
  for (std::size_t i = 0, end = all.size(); i < end; ++i)
    all.push_back({all[i].name + ", 8-bit moments", all[i].format, true});
  all.push_back({"8-bit moments", {}, true});
  return all;
}

/// `values` rounded to `type`, but for those that so lie between two numbers that an error of f32 decides.
Values rounded(DType type, Values values) {
  for (double& value : values) {
    const double margin = 1e-6 * (1 + std::fabs(value));
    const double below = round_to(type, value - margin), above = round_to(type, value + margin);
    value = below == above ? below : not_compared;
  }
  return values;
}

/// By the definition in engine/stochastic_rounding.h: up where the share of the way to the next number of bf16 and a
/// random one of 2^16 reach 1.
Values rounded_at_random(Values values, std::uint32_t stream) {
  const PhiloxStream random{seed, stream, static_cast<std::uint32_t>(update)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = random.words(i / 8)[i % 8 / 2];
    const double share = static_cast<double>(i % 2 == 0 ? word & 0xFFFF : word >> 16) / 65536;
    const double magnitude = std::fabs(values[i]);
    const double unit = std::ldexp(1.0, std::ilogb(magnitude) - 7);
    const double below = std::floor(magnitude / unit) * unit;
    const double way = (magnitude - below) / unit;
    const double margin = 1e-6 * (1 + magnitude) / unit + 0x1p-16;
    const bool is_clear = std::fabs(way + share - 1) > margin && way > margin && way < 1 - margin;
    values[i] = is_clear ? std::copysign(way + share >= 1 ? below + unit : below, values[i]) : not_compared;
  }
  return values;
}

// ---- 8-bit moments --------------------------------------------------------------------------------------------------

std::array<double, 4> bytes_of(float value) {
  std::uint8_t bytes[4];
  std::memcpy(bytes, &value, 4);
  return {static_cast<double>(bytes[0]), static_cast<double>(bytes[1]), static_cast<double>(bytes[2]),
          static_cast<double>(bytes[3])};
}

/// A moment of drawn codes, the first of each block the largest: its magnitude is 1.
Values drawn_moment(std::int64_t count, int random, bool is_signed) {
  Values bytes(static_cast<std::size_t>(moment_type(count).num_elements()));
  const Values drawn = random_values(count, random, is_signed ? -100 : 0, is_signed ? 100 : 200);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double code = i % 256 == 0 ? (is_signed ? 127 : 255) : std::floor(drawn[i]);
    bytes[i] = code < 0 ? code + 256 : code;
  }
  for (std::size_t at = (drawn.size() + 3) / 4 * 4; at < bytes.size(); at += 4)
    for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = bytes_of(1)[i];
  return bytes;
}

/// The bytes of a moment of `numbers`; codes that an error of f32 decides are not compared.
Values moment_bytes(const Values& numbers, bool is_signed) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  Values bytes(static_cast<std::size_t>(moment_type(count).num_elements()));
  for (std::size_t begin = 0, block = 0; begin < numbers.size(); begin += 256, ++block) {
    const std::size_t end = std::min(numbers.size(), begin + 256);
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(numbers[i]));
    for (std::size_t i = begin; i < end; ++i) {
      const double share = std::fabs(numbers[i]) / largest;
      const double exact = is_signed ? 127 * std::sqrt(share) : 255 * std::pow(share, 0.25);
      double code = std::floor(exact + 0.5);
      if (!is_signed && numbers[i] > 0) code = std::max(code, 1.0);
      bytes[i] = std::fabs(exact - std::floor(exact) - 0.5) < 1e-3 ? not_compared
                 : numbers[i] < 0 && code > 0                      ? 256 - code
                                                                   : code;
    }
    const std::size_t at = (numbers.size() + 3) / 4 * 4 + 4 * block;
    for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = bytes_of(static_cast<float>(largest))[i];
  }
  return bytes;
}

/// `decode(code, largest)` of every byte of a moment.
template <typename Decode>
Values moment_numbers(const Values& bytes, std::int64_t count, const Decode& decode) {
  Values numbers;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::size_t at = (static_cast<std::size_t>(count) + 3) / 4 * 4 + 4 * (i / 256);
    std::uint8_t of_largest[4];
    for (std::size_t b = 0; b < 4; ++b) of_largest[b] = static_cast<std::uint8_t>(bytes[at + b]);
    float largest = 0;
    std::memcpy(&largest, of_largest, 4);
    numbers.push_back(decode(bytes[i], static_cast<double>(largest)));
  }
  return numbers;
}

// ---- Cases ----------------------------------------------------------------------------------------------------------

/// Gradients such that the first element of each block makes the largest moment, and one that f32 computes exactly.
Values drawn_gradient(std::int64_t count, int random, bool is_factored) {
  Values gradient = random_values(count, random, -0.7, 0.7);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (i % 256 == 0) gradient[i] = 0.75;
    gradient[i] /= is_factored ? clip_factor : 1;
  }
  return gradient;
}

OpCase started_case(const Combination& combination, Op op) {
  OpCase c{combination.name, std::move(op), {}, {}};
  c.scalars = {.seed = seed, .learning_rate = learning_rate, .update = update};
  c.tolerance = 3e-6;
  c.inputs.push_back({12.5, 8, 3, 5, 8});
  if (combination.format.factored) c.inputs.push_back({4, clip_factor, 1});
  if (combination.format.scaled) c.inputs.push_back({1024, 5, num_skipped});
  return c;
}

/// Appends weight, gradient and copy of parameter p; step(i, weight, gradient) is element i's new weight.
template <typename Step>
void append_parameter(OpCase& c, const UpdateFormat& format, std::size_t p, const Step& step) {
  const auto at = static_cast<int>(c.inputs.size());
  const std::int64_t count = parameter_shapes[p].num_elements();
  Values weight = random_values(count, 10 * at + 1, 0.5, 1);
  if (!format.random_streams.empty())
    for (double& value : weight) value = round_to(DType::bf16, value);
  Values gradient = drawn_gradient(count, 10 * at + 2, format.factored);
  if (format.gradients != DType::f32)
    for (double& value : gradient) value = round_to(format.gradients, value);
  c.inputs.insert(c.inputs.end(), {weight, gradient});
  if (format.copies) c.inputs.push_back(Values(weight.size(), 3));
  for (std::size_t i = 0; i < weight.size(); ++i)
    weight[i] = step(i, weight[i], gradient[i] * (format.factored ? clip_factor : 1));
  if (!format.random_streams.empty()) weight = rounded_at_random(weight, format.random_streams[p]);
  c.expected.changed_inputs[at] = weight;
  if (format.copies) c.expected.changed_inputs[at + 2] = rounded(*format.copies, weight);
}

/// More cases: the last one under a loss scale with gradients that are not finite, after which every tensor is as it
/// was.
void append_refused_case(std::vector<OpCase>& cases) {
  for (std::size_t i = cases.size(); i-- > 0;) {
    if (cases[i].op.inputs[2].dtype != DType::f64) continue;
    OpCase refused = cases[i];
    refused.name += ", gradients are not finite";
    refused.inputs[1][gradients_finite] = 0;
    refused.expected.changed_inputs.clear();
    cases.push_back(refused);
    return;
  }
}

std::vector<TensorType> weight_types(const UpdateFormat& format) {
  std::vector<TensorType> types;
  for (const Shape& shape : parameter_shapes)
    types.push_back({format.random_streams.empty() ? DType::f32 : DType::bf16, shape});
  return types;
}

double made_updates(const UpdateFormat& format) {
  return static_cast<double>(update) - (format.scaled ? num_skipped : 0);
}

}  // namespace

Values first_moment_numbers(const Values& bytes, std::int64_t count) {
  return moment_numbers(bytes, count, [](double byte, double largest) {
    const double code = byte < 128 ? byte : byte - 256;
    return std::copysign(std::pow(code / 127, 2), code) * largest;
  });
}
Values second_moment_numbers(const Values& bytes, std::int64_t count) {
  return moment_numbers(bytes, count, [](double byte, double largest) { return std::pow(byte / 255, 4) * largest; });
}

std::vector<OpCase> sgd_format_cases() {
  std::vector<OpCase> cases;
  for (const double momentum : {0.0, 0.5}) {
    for (const Combination& combination : combinations()) {
      if (combination.eight_bit) continue;
      const SgdUpdateAttributes a{.momentum = momentum, .weight_decay = 0.1, .format = combination.format};
      cases.push_back(started_case(combination, sgd_update_op(weight_types(a.format), a)));
      OpCase& c = cases.back();
      for (std::size_t p = 0; p < parameter_shapes.size(); ++p) {
        Values m = random_values(parameter_shapes[p].num_elements(), static_cast<int>(p) + 50);
        const Values before = m;
        append_parameter(c, a.format, p, [&](std::size_t i, double w, double g) {
          return sgd_step(w, g, m[i], a, learning_rate, made_updates(a.format) <= 1);
        });
        if (momentum == 0) continue;
        c.expected.changed_inputs[static_cast<int>(c.inputs.size())] = m;
        c.inputs.push_back(before);
      }
    }
  }
  // Where all updates before were skipped, the momentum starts anew, whatever it holds.
  for (OpCase c : std::vector<OpCase>(cases)) {
    const auto& a = std::get<SgdUpdateAttributes>(c.op.attributes);
    if (!a.format.scaled || a.momentum == 0) continue;
    c.name += ", the first that is made";
    c.inputs[2][loss_scale_skipped] = static_cast<double>(update - 1);
    int at = first_parameter_operand(a.format);
    for (const Shape& shape : parameter_shapes) {
      const Values weight = c.inputs[static_cast<std::size_t>(at)],
                   gradient = c.inputs[static_cast<std::size_t>(at) + 1];
      Values w(weight.size()), m(weight.size(), not_compared);
      for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = sgd_step(weight[i], gradient[i] * clip_factor, m[i], a, learning_rate, true);
      c.inputs[static_cast<std::size_t>(at) + 3] = Values(static_cast<std::size_t>(shape.num_elements()), not_compared);
      c.expected.changed_inputs[at] = w;
      c.expected.changed_inputs[at + 2] = rounded(*a.format.copies, w);
      c.expected.changed_inputs[at + 3] = m;
      at += operands_of_a_parameter(a);
    }
    cases.push_back(c);
  }
  append_refused_case(cases);
  return cases;
}

std::vector<OpCase> adam_format_cases() {
  std::vector<OpCase> cases;
  for (const Combination& combination : combinations()) {
    const AdamUpdateAttributes a{.beta1 = 0.5,
                                 .beta2 = 0.5,
                                 .eps = 1e-3,
                                 .weight_decay = 0.1,
                                 .decoupled = true,
                                 .eight_bit = combination.eight_bit,
                                 .format = combination.format};
    cases.push_back(started_case(combination, adam_update_op(weight_types(a.format), a)));
    OpCase& c = cases.back();
    for (std::size_t p = 0; p < parameter_shapes.size(); ++p) {
      const std::int64_t count = parameter_shapes[p].num_elements();
      const int random = static_cast<int>(p) + 50;
      const Values first = a.eight_bit ? drawn_moment(count, random, true) : random_values(count, random);
      const Values second = a.eight_bit ? drawn_moment(count, random + 9, false) : random_values(count, random, 0.1, 1);
      Values m = a.eight_bit ? first_moment_numbers(first, count) : first;
      Values v = a.eight_bit ? second_moment_numbers(second, count) : second;
      append_parameter(c, a.format, p, [&](std::size_t i, double w, double g) {
        return adam_step(w, g, m[i], v[i], a, learning_rate, made_updates(a.format));
      });
      for (const auto& [before, after] : {std::pair(first, a.eight_bit ? moment_bytes(m, true) : m),
                                          {second, a.eight_bit ? moment_bytes(v, false) : v}}) {
        c.expected.changed_inputs[static_cast<int>(c.inputs.size())] = after;
        c.inputs.push_back(before);
      }
    }
  }
  append_refused_case(cases);
  return cases;
}

}  // namespace trainer
