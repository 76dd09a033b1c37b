#include <array>
#include <utility>

#include "engine/cpu/kernels.h"
#include "engine/cpu/sliced_kernel.h"
#include "engine/ops/half_operand.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

const CpuOp& cpu_op(OpKind kind) {
#define TRAINER_OP(name, attributes) &name##_on_cpu,
  static constexpr std::array ops = {TRAINER_OPS(TRAINER_OP)};
#undef TRAINER_OP
  return *ops[static_cast<std::size_t>(kind)];
}

}  // namespace

std::optional<Cut> cut_of(const Op& op) { return has_half_operand(op) ? cpu_op(op.kind).cut(op) : std::nullopt; }

std::unique_ptr<CpuKernel> make_kernel_of(const Op& op, CpuContext& context) {
  if (std::optional<Cut> cut = cut_of(op)) return make_sliced_kernel(op, std::move(*cut), context);
  return cpu_op(op.kind).make(op, context);
}

std::int64_t compute_workspace_bytes(const Op& op, CpuContext& context) {
  if (std::optional<Cut> cut = cut_of(op)) return sliced_workspace_bytes(op, std::move(*cut), context);
  const auto workspace_bytes = cpu_op(op.kind).workspace_bytes;
  require_defined_scratch(op.kind, workspace_bytes != nullptr);
  return workspace_bytes != nullptr ? workspace_bytes(op, context) : 0;
}

}  // namespace trainer
