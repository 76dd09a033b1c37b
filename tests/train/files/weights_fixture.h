#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "engine/half.h"
#include "engine/train/files/safetensors.h"
#include "tests/whole_runs/training_fixture.h"

namespace trainer {

/// Tensors to write: name, type and numbers, which f32, f16 and bf16 hold exactly.
struct TensorValues {
  std::string name;
  TensorType type;
  std::vector<double> values;
};

inline std::vector<std::byte> bytes_of(const TensorValues& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.type.num_bytes()));
  std::byte* to = bytes.data();
  for (const double value : tensor.values) {
    const auto single = static_cast<float>(value);
    if (tensor.type.dtype == DType::f64) std::memcpy(to, &value, sizeof(value));
    if (tensor.type.dtype == DType::f32) std::memcpy(to, &single, sizeof(single));
    if (is_16_bit(tensor.type.dtype)) narrow(tensor.type.dtype, &single, to, 1);
    if (tensor.type.dtype == DType::i64) {
      const auto whole = static_cast<std::int64_t>(value);
      std::memcpy(to, &whole, sizeof(whole));
    }
    to += size_of(tensor.type.dtype);
  }
  return bytes;
}

inline void write_tensors(const std::string& path, const std::vector<TensorValues>& tensors) {
  std::vector<NamedTensor> named;
  for (const TensorValues& tensor : tensors) named.push_back({tensor.name, tensor.type});
  SafetensorsWriter writer(path, named);
  for (const TensorValues& tensor : tensors) {
    const std::vector<std::byte> bytes = bytes_of(tensor);
    writer.append(bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
  writer.finish();
}

/// 0.5, 1.5, 2.5, … in the tensor's shape.
inline TensorValues counted(const std::string& name, const Shape& shape, DType type = DType::f32) {
  TensorValues tensor{name, {type, shape}, {}};
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) tensor.values.push_back(static_cast<double>(i) + 0.5);
  return tensor;
}

/// A convolution, a norm and a linear layer: `stem`, `norm` and `head`.
inline constexpr const char* named_experiment = R"(
name: named
data: {type: synthetic, shape: [4, 4, 2], classes: 3, samples: 8}
model:
  layers:
    - conv2d: {out: 4, kernel: 3, padding: 1, name: stem}
    - batchnorm2d: {name: norm}
    - global_avgpool
    - linear: {out: 3, name: head}
train: {batch_size: 4, steps: 0}
)";

/// All tensors of named_experiment as PyTorch saves them.
inline std::vector<TensorValues> named_tensors() {
  return {counted("stem.weight", {4, 2, 3, 3}),
          counted("stem.bias", {4}),
          counted("norm.weight", {4}),
          counted("norm.bias", {4}),
          counted("norm.running_mean", {4}),
          counted("norm.running_var", {4}),
          {"norm.num_batches_tracked", {DType::i64, Shape{}}, {7}},
          counted("head.weight", {3, 4}),
          counted("head.bias", {3})};
}

inline TensorValues& tensor_named(std::vector<TensorValues>& tensors, const std::string& name) {
  for (TensorValues& tensor : tensors)
    if (tensor.name == name) return tensor;
  FAIL("no tensor " << name);
  return tensors.front();
}

/// What a run saves of a tensor behind a step; by default one of no steps.
inline std::vector<float> saved_values(const std::string& output, const std::string& name, std::int64_t step = 0) {
  const SafetensorsFile file(checkpoint_file(output, step, "model.safetensors"));
  const std::ptrdiff_t position = file.find(name);
  REQUIRE(position >= 0);
  std::vector<float> values(
      static_cast<std::size_t>(file.tensors()[static_cast<std::size_t>(position)].type.num_elements()));
  file.read(static_cast<std::size_t>(position), values.data());
  return values;
}

inline std::vector<float> as_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace trainer
