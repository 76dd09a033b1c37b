#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/ops/op_definition.h"

namespace trainer {

/// A tensor of any type as numbers; f32 values are exact in it.
using Values = std::vector<double>;

/// What an op must compute.
struct Expected {
  std::vector<Values> outputs;             ///< NaN: not compared
  std::map<int, Values> changed_inputs{};  ///< the inputs that the op modifies
};

/// One op on one set of inputs, with what a slow reference in double says of it.
struct OpCase {
  std::string name;
  Op op;
  std::vector<Values> inputs;
  Expected expected;
  StepScalars scalars{};
  /// Allowed |difference| is tolerance · (1 + |expected|), and what rounding the result to 16 bit adds.
  double tolerance = 2e-5;
};

/// The cases of each line of TRAINER_OPS: an op without them does not link.
#define TRAINER_OP(name, attributes) std::vector<OpCase> name##_cases();
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

/// Results of one run, bit for bit.
struct OpResult {
  std::vector<std::vector<std::byte>> outputs, inputs;
  friend bool operator==(const OpResult&, const OpResult&) = default;
};

/// Runs the op once, with every operand and the workspace between guard bytes that it must leave alone. Outputs and
/// workspace start as `poison`. Outputs named in `in_place` take the memory of the inputs there.
OpResult run_op(Device& device, const OpCase& op_case, std::byte poison, const std::vector<InPlace>& in_place = {});

/// Bytes of `type` as numbers, and back.
Values to_values(const TensorType& type, const std::vector<std::byte>& bytes);
std::vector<std::byte> to_bytes(const TensorType& type, const Values& values);

/// Values uniform in [low, high), each representable in f32; the same for the same seed.
Values random_values(std::int64_t count, int seed, double low = -1, double high = 1);
inline Values random_values(const TensorType& type, int seed, double low = -1, double high = 1) {
  return random_values(type.num_elements(), seed, low, high);
}

/// While it lives, random_values draws numbers that f16 and bf16 hold exactly, so that the cases made meanwhile are
/// cases of the 16-bit op as well. One at a time.
class ShortRandomValues {
 public:
  ShortRandomValues();
  ~ShortRandomValues();
  ShortRandomValues(const ShortRandomValues&) = delete;
  ShortRandomValues& operator=(const ShortRandomValues&) = delete;
};

/// A forward computation in double: the first output as a function of the inputs.
using Reference = std::function<Values(const std::vector<Values>&)>;

/// d(Σ gradient · f(inputs)) / d(inputs[position]) by central differences; of more than a thousand numbers some, the
/// others being NaN.
Values finite_difference(const Reference& f, std::vector<Values> inputs, std::size_t position, const Values& gradient);

}  // namespace trainer
