#include "cuda/model/bounded_planner.h"

namespace trainer::cuda {

std::int64_t BoundedConvolutionPlanner::workspace_bytes(const ConvolutionCall& call) { return call.workspace_limit; }

}  // namespace trainer::cuda
