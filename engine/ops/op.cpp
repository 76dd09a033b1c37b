#include "engine/ops/op.h"

#include <fmt/format.h>

#include <array>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

constexpr std::array<std::string_view, num_op_kinds> op_names = {
#define TRAINER_OP(name, attributes) #name,
    TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
};

void mix(std::uint64_t& hash, std::uint64_t word) {
  hash ^= word;
  hash *= 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
}

}  // namespace

std::string_view name_of(OpKind kind) { return op_names[static_cast<std::size_t>(kind)]; }

// Kinds and shapes tell ops apart well enough; attributes are left to the comparison.
std::size_t OpHash::operator()(const Op& op) const noexcept {
  std::uint64_t hash = static_cast<std::uint64_t>(op.kind) + 1;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const TensorType& type : *operands) {
      mix(hash, static_cast<std::uint64_t>(type.dtype) * 8 + static_cast<std::uint64_t>(type.shape.rank()));
      for (std::int64_t dim : type.shape) mix(hash, static_cast<std::uint64_t>(dim));
    }
  }
  return hash;
}

const OpDefinition& definition_of(OpKind kind) {
  static constexpr std::array<const OpDefinition*, num_op_kinds> definitions = {
#define TRAINER_OP(name, attributes) &name##_definition,
      TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
  };
  return *definitions[static_cast<std::size_t>(kind)];
}

void require_defined_scratch(OpKind kind, bool has_formula) {
  const bool takes_scratch = definition_of(kind).takes_scratch;
  if (takes_scratch == has_formula) return;
  throw InternalError(fmt::format("internal error: {} is defined {} scratch, and the device has {} formula for it",
                                  name_of(kind), takes_scratch ? "with" : "without", has_formula ? "a" : "no"));
}

namespace {

/// The first output over the input at each position.
constexpr auto over_one_input = [] {
  std::array<InPlace, 16> rules{};
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i] = {.output = 0, .input = static_cast<std::int8_t>(i)};
  return rules;
}();

}  // namespace

std::span<const InPlace> in_place_rules(const Op& op) {
  if (op.placed_at >= 0) {
    if (!continues_whole(op)) return {};
    return std::span(over_one_input).subspan(op.inputs.size() - 1, 1);
  }
  const OpDefinition& definition = definition_of(op.kind);
  return definition.in_place_of != nullptr ? definition.in_place_of(op) : definition.in_place;
}

bool may_modify_input(const Op& op, int position) {
  const OpDefinition& definition = definition_of(op.kind);
  return definition.modifies != nullptr ? definition.modifies(op, position) : op.outputs.empty();
}

}  // namespace trainer
