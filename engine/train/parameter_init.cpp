#include "engine/train/parameter_init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/graph/tensor_pieces.h"
#include "engine/half.h"
#include "engine/philox.h"

namespace trainer {
namespace {

/// Calls number(words, i) for each element, i its place in a group of four that share four words, and sets it.
template <typename Number>
void fill_from(const PhiloxStream& stream, std::int64_t first, std::span<float> values, Number number) {
  const std::int64_t end = first + static_cast<std::int64_t>(values.size());
  for (std::int64_t group = first / 4; group * 4 < end; ++group) {
    const auto words = stream.words(static_cast<std::uint64_t>(group));
    for (std::int64_t i = std::max(first, group * 4); i < std::min(group * 4 + 4, end); ++i)
      values[static_cast<std::size_t>(i - first)] = static_cast<float>(number(words, static_cast<std::size_t>(i % 4)));
  }
}

void fill_uniform(const PhiloxStream& stream, double bound, std::int64_t first, std::span<float> values) {
  fill_from(stream, first, values,
            [&](const auto& words, std::size_t i) { return (2 * ((words[i] >> 8) * (1.0 / 16777216.0)) - 1) * bound; });
}

/// Box and Muller, 1958: two words make two numbers.
void fill_normal(const PhiloxStream& stream, double deviation, std::int64_t first, std::span<float> values) {
  fill_from(stream, first, values, [&](const auto& words, std::size_t i) {
    const std::size_t pair = i / 2 * 2;
    const double radius = std::sqrt(-2 * std::log((words[pair] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * (words[pair + 1] / 4294967296.0);
    return deviation * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  });
}

}  // namespace

void fill_initial(const Parameter& parameter, std::uint64_t seed, std::uint32_t index, std::span<float> values,
                  std::int64_t first) {
  using Start = Parameter::Start;
  if (parameter.start == Start::ones || parameter.start == Start::constant) {
    std::fill(values.begin(), values.end(),
              parameter.start == Start::ones ? 1.0F : static_cast<float>(parameter.constant));
    return;
  }
  const bool is_bias = parameter.start == Start::random_bias;
  if (parameter.start == Start::zeros || (is_bias && parameter.init != Initialization::pytorch)) {
    std::fill(values.begin(), values.end(), 0.0F);
    return;
  }
  const PhiloxStream stream{seed, parameter_stream + index, 0};
  const double scale = parameter.scale;
  const auto fan_in = static_cast<double>(std::max<std::int64_t>(parameter.fan_in, 1));
  const auto fan_out = static_cast<double>(std::max<std::int64_t>(parameter.fan_out, 1));
  switch (parameter.init) {
    case Initialization::pytorch:
      if (parameter.start == Start::random_rows) return fill_normal(stream, scale, first, values);
      return fill_uniform(stream, scale / std::sqrt(fan_in), first, values);
    case Initialization::kaiming_uniform:
      return fill_uniform(stream, scale * std::sqrt(6 / fan_in), first, values);
    case Initialization::kaiming_normal:
      return fill_normal(stream, scale * std::sqrt(2 / fan_in), first, values);
    case Initialization::xavier_uniform:
      return fill_uniform(stream, scale * std::sqrt(6 / (fan_in + fan_out)), first, values);
    case Initialization::xavier_normal:
      return fill_normal(stream, scale * std::sqrt(2 / (fan_in + fan_out)), first, values);
    case Initialization::normal:
      return fill_normal(stream, scale * 0.02, first, values);
    case Initialization::zeros:
      std::fill(values.begin(), values.end(), 0.0F);
      return;
  }
}

void initialize_parameters(Executor& executor, std::uint64_t seed) {
  const Program& program = executor.program();
  std::int64_t most_elements = 0;
  const auto pieces_of = [&](const Parameter& parameter) {
    return tensor_pieces(parameter.file_order, {DType::f32, parameter.type.shape});
  };
  for (const Parameter& parameter : program.parameters)
    for (const TensorPiece& piece : pieces_of(parameter))
      most_elements = std::max(most_elements, piece.kept.num_elements());
  std::vector<float> staging(static_cast<std::size_t>(most_elements));
  std::vector<std::uint16_t> narrowed;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    if (parameter.is_frozen()) continue;
    const DType type = parameter.type.dtype;
    for (const TensorPiece& piece : pieces_of(parameter)) {
      const std::int64_t count = piece.kept.num_elements();
      const std::int64_t first = piece.offset / static_cast<std::int64_t>(sizeof(float));
      const std::span<float> values(staging.data(), static_cast<std::size_t>(count));
      fill_initial(parameter, seed, static_cast<std::uint32_t>(i), values, first);
      to_device_order(piece.order, piece.kept, std::as_writable_bytes(values).data());
      const auto element_bytes = static_cast<std::int64_t>(size_of(type));
      const void* from = values.data();
      if (type != DType::f32) {
        narrowed.resize(staging.size());
        narrow(type, values.data(), narrowed.data(), count);
        from = narrowed.data();
      }
      executor.write(program.parameter_buffers[i], first * element_bytes, count * element_bytes, from);
    }
  }
}

void write_frozen_constants(Executor& executor) {
  const Program& program = executor.program();
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    if (const std::vector<float>& constants = program.parameters[i].constants; !constants.empty())
      executor.write(program.parameter_buffers[i], constants.data());
}

}  // namespace trainer
