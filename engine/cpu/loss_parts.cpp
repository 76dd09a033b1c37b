#include "engine/cpu/loss_parts.h"

namespace trainer {

RowParts loss_parts(const Op& op) {
  const bool is_by_target = std::holds_alternative<CrossEntropyAttributes>(op.attributes) ||
                            std::holds_alternative<ClassPartAttributes>(op.attributes);
  if (is_by_target) return row_parts(op.inputs[1].num_elements(), 8);
  return row_parts(op.inputs[0].num_elements(), 4096);
}

std::int64_t loss_workspace_bytes(const Op& op, CpuContext&) {
  return loss_parts(op).num_parts * static_cast<std::int64_t>(sizeof(LossPart));
}

}  // namespace trainer
