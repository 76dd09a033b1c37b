#include "engine/plan/search/remembered_workspaces.h"

namespace trainer {

std::int64_t RememberedWorkspaces::workspace_bytes(const Op& op) const {
  const bool is_convolution = std::holds_alternative<Conv2dAttributes>(op.attributes);
  if (!is_convolution && !std::holds_alternative<AttentionAttributes>(op.attributes))
    return device_.workspace_bytes(op);
  auto& answers = is_convolution ? answers_ : attention_answers_;
  if (const auto answer = answers.find(op); answer != answers.end()) return answer->second;
  return answers.emplace(op, device_.workspace_bytes(op)).first->second;
}

bool RememberedWorkspaces::convolution_statistics(const Op& conv2d) const {
  if (const auto answer = statistics_.find(conv2d); answer != statistics_.end()) return answer->second;
  return statistics_.emplace(conv2d, device_.convolution_statistics(conv2d)).first->second;
}

}  // namespace trainer
