#include "cuda/library/cudnn_planner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/errors.h"

namespace trainer::cuda {

namespace {

/// Of a call's engines, those that can be chosen by time.
constexpr std::size_t max_timed = 8;

}  // namespace

CudnnPlanner::CudnnPlanner(CudnnPlans plans) : plans_(std::move(plans)) {}

CudnnPlanner::CudnnPlanner(CudnnPlans plans, const std::string& choices_path, PlanTimer timer)
    : plans_(std::move(plans)), choices_(choices_path), timer_(std::move(timer)) {}

const CudnnPlan& CudnnPlanner::plan(const ConvolutionCall& call) { return choice_of(call).plan; }

const CudnnPlan& CudnnPlanner::plan_to_run(const ConvolutionCall& call) {
  Choice& choice = choice_of(call);
  if (choice.is_timed || !timer_) return choice.plan;
  if (!choice.running) choice.running = choose_by_time(call, choice.plan);
  return *choice.running;
}

/// Whether the device has engines with statistics at all, so that one without is not asked about every call.
bool CudnnPlanner::has_statistics() {
  if (has_statistics_) return *has_statistics_;
  constexpr std::array<std::int64_t, 4> image = {64, 16, 16, 64};
  const ConvolutionCall usual{.type = DType::f16,
                              .x = image,
                              .y = image,
                              .kernel = {3, 3},
                              .padding = {1, 1},
                              .statistics = true,
                              .workspace_limit = std::int64_t{96} << 20};
  try {
    has_statistics_ = !plans_.find(usual, 1).empty();
  } catch (const DeviceError&) {
    has_statistics_ = false;
  }
  return *has_statistics_;
}

bool CudnnPlanner::serves(const ConvolutionCall& call) {
  if (call.statistics && !has_statistics()) return false;
  const std::string key = text_key(call);
  if (refused_.count(key) != 0) return false;
  if (ConvolutionPlanner::serves(call)) return true;
  refused_.insert(key);
  // What was planned beyond the limit is not going to run.
  if (const auto planned = chosen_.find(key); planned != chosen_.end()) {
    if (choices_ && !planned->second.is_timed) --num_untuned_;
    chosen_.erase(planned);
  }
  return false;
}

CudnnPlanner::Choice& CudnnPlanner::choice_of(const ConvolutionCall& call) {
  const std::string key = text_key(call);
  const auto known = chosen_.find(key);
  return known != chosen_.end() ? known->second : chosen_.emplace(key, choose(call)).first->second;
}

CudnnPlanner::Choice CudnnPlanner::choose(const ConvolutionCall& call) {
  if (!choices_) return {.plan = plans_.find(call, 1).front()};
  if (const auto engine = choices_->find(text_key(call))) {
    std::vector<CudnnPlan> candidates = plans_.find(call, max_timed);
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const CudnnPlan& plan) { return plan.engine == *engine; });
    if (chosen != candidates.end()) return {.plan = std::move(*chosen), .is_timed = true};
  }
  Choice choice{.plan = plans_.find(call, 1).front()};
  ++num_untuned_;
  return choice;
}

CudnnPlan CudnnPlanner::choose_by_time(const ConvolutionCall& call, const CudnnPlan& planned) {
  std::vector<CudnnPlan> candidates = plans_.find(call, max_timed);
  std::erase_if(candidates, [&](const CudnnPlan& plan) { return plan.workspace_bytes > planned.workspace_bytes; });
  const auto fastest = timer_(call, candidates);
  if (!fastest) return planned;
  choices_->store(text_key(call), candidates.at(*fastest).engine);
  return std::move(candidates.at(*fastest));
}

}  // namespace trainer::cuda
