#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/library/cudnn_plans.h"
#include "cuda/library/engine_choices.h"

namespace trainer::cuda {

/// Says which of some plans is the fastest; empty where it cannot be found out.
using PlanTimer = std::function<std::optional<std::size_t>(const ConvolutionCall&, const std::vector<CudnnPlan>&)>;

/// Chooses one plan for each call and keeps it: what the heuristics put first, or where engines are timed the fastest
/// of the first eight, once it is known.
class CudnnPlanner final : public ConvolutionPlanner {
 public:
  /// The heuristics' choice.
  explicit CudnnPlanner(CudnnPlans plans);
  /// Choices from the file at `choices_path`; those that it lacks are made and stored there by `timer`, or where that
  /// is empty or cannot tell, left to the heuristics and counted.
  CudnnPlanner(CudnnPlans plans, const std::string& choices_path, PlanTimer timer);

  /// Throws DeviceError where nothing serves the call; DataError where a choice cannot be stored.
  const CudnnPlan& plan(const ConvolutionCall& call);
  std::int64_t workspace_bytes(const ConvolutionCall& call) override { return plan(call).workspace_bytes; }
  std::int64_t num_untuned() const override { return num_untuned_; }

 private:
  CudnnPlan choose(const ConvolutionCall& call);
  CudnnPlan choose_timed(const ConvolutionCall& call);

  CudnnPlans plans_;
  std::optional<EngineChoices> choices_;  ///< where engines are timed
  PlanTimer timer_;
  std::unordered_map<std::string, CudnnPlan> chosen_;  ///< by text_key
  std::int64_t num_untuned_ = 0;
};

}  // namespace trainer::cuda
