#include "engine/train/parameter_init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/half.h"
#include "engine/philox.h"

namespace trainer {
namespace {

void fill_uniform(const PhiloxStream& stream, double bound, std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += 4) {
    const auto words = stream.words(begin / 4);
    for (std::size_t i = begin; i < std::min(begin + 4, values.size()); ++i) {
      const double position = (words[i - begin] >> 8) * (1.0 / 16777216.0);
      values[i] = static_cast<float>((2 * position - 1) * bound);
    }
  }
}

/// Box and Muller, 1958: two words make two numbers.
void fill_normal(const PhiloxStream& stream, double deviation, std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += 4) {
    const auto words = stream.words(begin / 4);
    for (std::size_t i = begin; i < std::min(begin + 4, values.size()); ++i) {
      const std::size_t pair = (i - begin) / 2 * 2;
      const double radius = std::sqrt(-2 * std::log((words[pair] + 1.0) / 4294967296.0));
      const double angle = 2 * std::numbers::pi * (words[pair + 1] / 4294967296.0);
      values[i] = static_cast<float>(deviation * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
}

}  // namespace

void fill_initial(const Parameter& parameter, std::uint64_t seed, std::uint32_t index, std::span<float> values) {
  using Start = Parameter::Start;
  if (parameter.start == Start::ones) {
    std::fill(values.begin(), values.end(), 1.0F);
    return;
  }
  const bool is_bias = parameter.start == Start::random_bias;
  if (parameter.start == Start::zeros || (is_bias && parameter.init != Initialization::pytorch)) {
    std::fill(values.begin(), values.end(), 0.0F);
    return;
  }
  const PhiloxStream stream{seed, parameter_stream + index, 0};
  const auto fan_in = static_cast<double>(std::max<std::int64_t>(parameter.fan_in, 1));
  const auto fan_out = static_cast<double>(std::max<std::int64_t>(parameter.fan_out, 1));
  switch (parameter.init) {
    case Initialization::pytorch:
      return fill_uniform(stream, 1 / std::sqrt(fan_in), values);
    case Initialization::kaiming_uniform:
      return fill_uniform(stream, std::sqrt(6 / fan_in), values);
    case Initialization::kaiming_normal:
      return fill_normal(stream, std::sqrt(2 / fan_in), values);
    case Initialization::xavier_uniform:
      return fill_uniform(stream, std::sqrt(6 / (fan_in + fan_out)), values);
    case Initialization::xavier_normal:
      return fill_normal(stream, std::sqrt(2 / (fan_in + fan_out)), values);
    case Initialization::normal:
      return fill_normal(stream, 0.02, values);
    case Initialization::zeros:
      std::fill(values.begin(), values.end(), 0.0F);
      return;
  }
}

void initialize_parameters(Executor& executor, std::uint64_t seed) {
  const Program& program = executor.program();
  std::int64_t largest = 0;
  for (const Parameter& parameter : program.parameters) largest = std::max(largest, parameter.type.num_elements());
  std::vector<float> staging(static_cast<std::size_t>(largest));
  std::vector<std::uint16_t> narrowed(static_cast<std::size_t>(largest));
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const auto count = static_cast<std::size_t>(program.parameters[i].type.num_elements());
    const std::span<float> values(staging.data(), count);
    const Parameter& parameter = program.parameters[i];
    fill_initial(parameter, seed, static_cast<std::uint32_t>(i), values);
    to_device_order(parameter.file_order, {DType::f32, parameter.type.shape}, std::as_writable_bytes(values).data());
    const DType type = parameter.type.dtype;
    if (type != DType::f32) {
      narrow(type, values.data(), narrowed.data(), static_cast<std::int64_t>(count));
      executor.write(program.parameter_buffers[i], narrowed.data());
      continue;
    }
    executor.write(program.parameter_buffers[i], values.data());
  }
}

}  // namespace trainer
