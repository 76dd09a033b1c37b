#include "cuda/library/cudnn_planner.h"

#include <algorithm>
#include <utility>

namespace trainer::cuda {

CudnnPlanner::CudnnPlanner(CudnnPlans plans) : plans_(std::move(plans)) {}

CudnnPlanner::CudnnPlanner(CudnnPlans plans, const std::string& choices_path, PlanTimer timer)
    : plans_(std::move(plans)), choices_(choices_path), timer_(std::move(timer)) {}

const CudnnPlan& CudnnPlanner::plan(const ConvolutionCall& call) {
  const std::string key = text_key(call);
  const auto known = chosen_.find(key);
  return known != chosen_.end() ? known->second : chosen_.emplace(key, choose(call)).first->second;
}

CudnnPlan CudnnPlanner::choose(const ConvolutionCall& call) {
  return choices_ ? choose_timed(call) : plans_.find(call, 1).front();
}

CudnnPlan CudnnPlanner::choose_timed(const ConvolutionCall& call) {
  constexpr std::size_t max_timed = 8;
  std::vector<CudnnPlan> candidates = plans_.find(call, max_timed);
  if (const auto engine = choices_->find(call)) {
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const CudnnPlan& plan) { return plan.engine == *engine; });
    if (chosen != candidates.end()) return std::move(*chosen);
  }
  if (const auto fastest = timer_ ? timer_(call, candidates) : std::nullopt) {
    choices_->store(call, candidates[*fastest].engine);
    return std::move(candidates[*fastest]);
  }
  ++num_untuned_;
  return std::move(candidates.front());
}

}  // namespace trainer::cuda
