#include "tests/kernel_cases/operand_content.h"

#include <algorithm>
#include <cstring>

#include "engine/errors.h"
#include "engine/half.h"

namespace trainer::cuda {
namespace {

/// Uniform in [0, 1): Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : state_(seed) {}
  double operator()() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

template <typename T, typename Convert>
std::vector<std::byte> numbers(const CaseOperand& operand, std::uint64_t seed, std::int64_t count,
                               const Convert& convert) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  Uniform uniform(seed);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    const T value = convert(operand.low + (operand.high - operand.low) * uniform());
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> operand_content(const CaseOperand& operand, std::uint64_t seed, std::int64_t most_elements) {
  if (!operand.content.empty()) return operand.content;
  const std::int64_t count = std::min(operand.count, most_elements);
  switch (operand.type) {
    case DType::f32:
      return numbers<float>(operand, seed, count, [](double x) { return static_cast<float>(x); });
    case DType::f16:
      return numbers<std::uint16_t>(operand, seed, count, [](double x) { return float16_bits(static_cast<float>(x)); });
    case DType::bf16:
      return numbers<std::uint16_t>(operand, seed, count,
                                    [](double x) { return bfloat16_bits(static_cast<float>(x)); });
    case DType::u8:
      return numbers<std::uint8_t>(operand, seed, count, [](double x) { return static_cast<std::uint8_t>(x); });
    case DType::i32:
      return numbers<std::int32_t>(operand, seed, count, [](double x) { return static_cast<std::int32_t>(x); });
    case DType::i64:
      return numbers<std::int64_t>(operand, seed, count, [](double x) { return static_cast<std::int64_t>(x); });
    case DType::f64:
      return numbers<double>(operand, seed, count, [](double x) { return x; });
    default:
      throw InternalError("internal error: an operand of a case is of a type that no kernel takes");
  }
}

}  // namespace trainer::cuda
