#include "tests/op_cases/op_case.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>

#include "tests/op_cases/operand_memory.h"
#include "tests/op_cases/short_numbers.h"

namespace trainer {

namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* const data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof(T));
}

template <typename T>
T read_as(const std::vector<std::byte>& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
double read(const std::vector<std::byte>& bytes, std::size_t index) {
  return static_cast<double>(read_as<T>(bytes, index));
}

bool random_values_are_short = false;

double short_number(double value) { return round_to(DType::f16, round_to(DType::bf16, value)); }

}  // namespace

OpResult run_op(Device& device, const OpCase& op_case, std::byte poison, const std::vector<InPlace>& in_place) {
  const Op& op = op_case.op;
  OperandMemory memory(device);
  REQUIRE(op_case.inputs.size() == op.inputs.size());
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    REQUIRE(op_case.inputs[i].size() == static_cast<std::size_t>(op.inputs[i].num_elements()));
    memory.add(to_bytes(op.inputs[i], op_case.inputs[i]));
  }
  for (const TensorType& type : op.outputs) memory.add(static_cast<std::size_t>(type.num_bytes()), poison);
  const std::int64_t workspace_bytes = device.workspace_bytes(op);
  const std::size_t workspace = memory.add(static_cast<std::size_t>(workspace_bytes), poison);

  // Operands are numbered inputs first; an output in place has the number of its input.
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) outputs.push_back(op.inputs.size() + i);
  for (const InPlace& rule : in_place)
    outputs[static_cast<std::size_t>(rule.output)] = static_cast<std::size_t>(rule.input);
  memory.to_device();
  std::vector<void*> input_addresses, output_addresses;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) input_addresses.push_back(memory.address(i));
  for (const std::size_t output : outputs) output_addresses.push_back(memory.address(output));

  device.begin_pass(op_case.scalars, {});
  device.prepare(op).run(
      {input_addresses, output_addresses, workspace_bytes > 0 ? memory.address(workspace) : nullptr});
  memory.to_host();

  OpResult result;
  for (std::size_t operand = 0; operand <= workspace; ++operand) CHECK(memory.guards_hold(operand));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) result.inputs.push_back(memory.bytes(i));
  for (const std::size_t output : outputs) result.outputs.push_back(memory.bytes(output));
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
      case DType::i64:
        values.push_back(read<std::int64_t>(bytes, i));
        break;
      case DType::f64:
        values.push_back(read<double>(bytes, i));
        break;
      case DType::f16:
      case DType::bf16:
        values.push_back(number_of(type.dtype, read_as<std::uint16_t>(bytes, i)));
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
      case DType::i64:
        append(bytes, static_cast<std::int64_t>(value));
        break;
      case DType::f64:
        append(bytes, value);
        break;
      case DType::f16:
      case DType::bf16:
        append(bytes, bits_of(type.dtype, round_to(type.dtype, value)));
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
  if (random_values_are_short)
    for (double& value : values) value = short_number(value);
  return values;
}

ShortRandomValues::ShortRandomValues() { random_values_are_short = true; }
ShortRandomValues::~ShortRandomValues() { random_values_are_short = false; }

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
