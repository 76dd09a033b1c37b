#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/ops/op_list.h"
#include "engine/shape.h"

namespace trainer {

enum class OpKind : std::uint8_t {
#define TRAINER_OP(name, attributes) name,
  TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
};
inline constexpr int num_op_kinds = 0
#define TRAINER_OP(name, attributes) +1
    TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
    ;

/// What one op does, without saying to which memory: its kind, attributes, and the types of its operands.
/// Equal ops compute the same function, so a device may share one kernel between them.
/// Inputs that an op also modifies (running statistics, parameters) are named in its header, and by
/// OpDefinition::modifies.
struct Op {
  OpKind kind{};
  OpAttributes attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  /// At least 0: the first output is placed in a tensor of more channels, from this one on. Note [Placed outputs] in
  /// engine/ops/placed.h.
  std::int64_t placed_at = -1;

  friend bool operator==(const Op&, const Op&) = default;
};

/// For hash maps keyed by op.
struct OpHash {
  std::size_t operator()(const Op& op) const noexcept;
};

std::string_view name_of(OpKind kind);

/// The attributes of `op`; InternalError where they are of another kind.
template <typename Attributes>
const Attributes& attributes_of(const Op& op) {
  const auto* attributes = std::get_if<Attributes>(&op.attributes);
  require_internal(attributes != nullptr, "an op carries the attributes of its kind");
  return *attributes;
}

}  // namespace trainer
