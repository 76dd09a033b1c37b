#include "tests/op_cases/op_case.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace trainer {

namespace {

constexpr std::size_t guard_bytes = 512;
constexpr std::byte guard{0xA5};

/// Memory between guards, aligned to 512 bytes as an allocator's.
class GuardedBytes {
 public:
  GuardedBytes(std::size_t size, std::byte fill)
      : size_(size), memory_(new (std::align_val_t{512}) std::byte[total()]) {
    std::memset(memory_.get(), static_cast<int>(guard), total());
    std::memset(data(), static_cast<int>(fill), size_);
  }

  std::byte* data() { return memory_.get() + guard_bytes; }
  std::vector<std::byte> bytes() { return {data(), data() + size_}; }
  bool guards_hold() {
    for (std::size_t i = 0; i < guard_bytes; ++i)
      if (memory_.get()[i] != guard || data()[size_ + i] != guard) return false;
    return true;
  }

 private:
  std::size_t total() const { return size_ + 2 * guard_bytes; }
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{512}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte[], Free> memory_;
};

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* const data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof(T));
}

template <typename T>
double read(const std::vector<std::byte>& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

OpResult run_op(Device& device, const OpCase& op_case, std::byte poison, InPlace in_place) {
  const Op& op = op_case.op;
  std::vector<GuardedBytes> inputs, outputs;
  std::vector<void*> input_addresses, output_addresses;
  REQUIRE(op_case.inputs.size() == op.inputs.size());
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    REQUIRE(op_case.inputs[i].size() == static_cast<std::size_t>(op.inputs[i].num_elements()));
    const auto bytes = to_bytes(op.inputs[i], op_case.inputs[i]);
    inputs.emplace_back(bytes.size(), std::byte{0});
    std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
    input_addresses.push_back(inputs.back().data());
  }
  for (const TensorType& type : op.outputs) {
    outputs.emplace_back(static_cast<std::size_t>(type.num_bytes()), poison);
    output_addresses.push_back(outputs.back().data());
  }
  if (in_place.output >= 0)
    output_addresses[static_cast<std::size_t>(in_place.output)] =
        input_addresses[static_cast<std::size_t>(in_place.input)];
  const std::int64_t workspace_bytes = device.workspace_bytes(op);
  GuardedBytes workspace(static_cast<std::size_t>(workspace_bytes), poison);

  device.begin_pass(op_case.scalars, {});
  device.prepare(op).run({input_addresses, output_addresses, workspace_bytes > 0 ? workspace.data() : nullptr});
  device.synchronize();

  OpResult result;
  CHECK(workspace.guards_hold());
  for (auto& memory : inputs) {
    CHECK(memory.guards_hold());
    result.inputs.push_back(memory.bytes());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(outputs[i].guards_hold());
    const bool shares = in_place.output == static_cast<int>(i);
    result.outputs.push_back(shares ? inputs[static_cast<std::size_t>(in_place.input)].bytes() : outputs[i].bytes());
  }
  return result;
}

Values to_values(const TensorType& type, const std::vector<std::byte>& bytes) {
  Values values;
  for (std::size_t i = 0; i < bytes.size() / size_of(type.dtype); ++i) {
    switch (type.dtype) {
      case DType::u8:
        values.push_back(read<std::uint8_t>(bytes, i));
        break;
      case DType::i32:
        values.push_back(read<std::int32_t>(bytes, i));
        break;
      case DType::f64:
        values.push_back(read<double>(bytes, i));
        break;
      default:
        values.push_back(read<float>(bytes, i));
    }
  }
  return values;
}

std::vector<std::byte> to_bytes(const TensorType& type, const Values& values) {
  std::vector<std::byte> bytes;
  for (const double value : values) {
    switch (type.dtype) {
      case DType::u8:
        append(bytes, static_cast<std::uint8_t>(value));
        break;
      case DType::i32:
        append(bytes, static_cast<std::int32_t>(value));
        break;
      case DType::f64:
        append(bytes, value);
        break;
      default:
        append(bytes, static_cast<float>(value));
    }
  }
  return bytes;
}

Values random_values(std::int64_t count, int seed, double low, double high) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::uniform_real_distribution<float> distribution(static_cast<float>(low), static_cast<float>(high));
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(distribution(random));
  return values;
}

Values finite_difference(const Reference& f, std::vector<Values> inputs, std::size_t position, const Values& gradient) {
  constexpr double step = 1e-5;
  const auto objective = [&] {
    const Values y = f(inputs);
    REQUIRE(y.size() == gradient.size());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += gradient[i] * y[i];
    return sum;
  };
  // Beyond a thousand numbers every so many: the others are NaN, not compared.
  const std::size_t every = 1 + inputs[position].size() / 1000 * 37;
  Values result;
  for (double& value : inputs[position]) {
    if (result.size() % every != 0) {
      result.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double original = value;
    value = original + step;
    const double above = objective();
    value = original - step;
    const double below = objective();
    value = original;
    result.push_back((above - below) / (2 * step));
  }
  return result;
}

}  // namespace trainer
