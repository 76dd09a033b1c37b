#include "cuda/model/bounded_planner.h"

namespace trainer::cuda {

std::int64_t BoundedConvolutionPlanner::workspace_bytes(const ConvolutionCall& call) { return call.workspace_limit; }

std::int64_t compute_most_workspace_bytes(const Op& op, WorkspaceModel model) {
  BoundedConvolutionPlanner convolutions;
  BoundedAttentionPlanner attentions("");
  model.convolutions = &convolutions;
  model.matmuls = nullptr;
  if (model.attentions != nullptr) model.attentions = &attentions;
  return compute_workspace_bytes(op, model);
}

}  // namespace trainer::cuda
