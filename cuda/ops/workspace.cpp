#include <algorithm>
#include <array>

#include "cuda/ops/kernels.h"
#include "engine/ops/op_definition.h"

namespace trainer::cuda {

namespace {

/// Null where there is none.
const ScratchRule* scratch_rule_of(OpKind kind) {
  static constexpr std::array rules = {&linear_scratch,
                                       &linear_cross_entropy_scratch,
                                       &conv2d_scratch,
                                       &batchnorm2d_scratch,
                                       &layernorm_scratch,
                                       &groupnorm_scratch,
                                       &attention_scratch,
                                       &prelu_scratch,
                                       &cross_entropy_scratch,
                                       &numeric_loss_scratch,
                                       &dice_scratch,
                                       &class_part_scratch,
                                       &gradient_factor_scratch,
                                       &communication_scratch};
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const ScratchRule* rule) {
    return std::find(rule->kinds.begin(), rule->kinds.end(), kind) != rule->kinds.end();
  });
  return found == rules.end() ? nullptr : *found;
}

}  // namespace

std::int64_t compute_workspace_bytes(const Op& op, const WorkspaceModel& model) {
  const ScratchRule* const rule = scratch_rule_of(op.kind);
  require_defined_scratch(op.kind, rule != nullptr);
  return rule != nullptr ? rule->num_bytes(op, model) : 0;
}

}  // namespace trainer::cuda
