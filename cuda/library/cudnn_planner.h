#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/library/cudnn_plans.h"
#include "cuda/library/engine_choices.h"

namespace trainer::cuda {

/// Says which of some plans is the fastest; empty where it cannot be found out.
using PlanTimer = std::function<std::optional<std::size_t>(const ConvolutionCall&, const std::vector<CudnnPlan>&)>;

/// Chooses one plan for each call and keeps it: what was timed and stored before, else what the heuristics put first.
/// See Note [One plan] in cuda/library/cudnn_convolution.cpp.
class CudnnPlanner final : public ConvolutionPlanner {
 public:
  /// The heuristics' choice.
  explicit CudnnPlanner(CudnnPlans plans);
  /// Choices from the file at `choices_path`; those that it lacks are left to the heuristics and counted, until
  /// plan_to_run has `timer`, which may be empty, make them.
  CudnnPlanner(CudnnPlans plans, const std::string& choices_path, PlanTimer timer);

  /// Times nothing. Throws DeviceError where nothing serves the call.
  const CudnnPlan& plan(const ConvolutionCall& call);
  /// What to run in the scratch of plan(call), which stays as it is: that plan, or where its call has no choice yet and
  /// there is a timer, the fastest of the heuristics' first eight that need no more scratch, which is stored. Throws
  /// what plan(call) throws.
  const CudnnPlan& plan_to_run(const ConvolutionCall& call);
  /// EngineChoices::note.
  std::string note() const { return choices_ ? choices_->note() : std::string(); }
  std::int64_t workspace_bytes(const ConvolutionCall& call) override { return plan(call).workspace_bytes; }
  bool serves(const ConvolutionCall& call) override;
  std::int64_t num_untuned() const override { return num_untuned_; }

 private:
  struct Choice {
    CudnnPlan plan;
    bool is_timed = false;                  ///< before, and stored
    std::optional<CudnnPlan> running = {};  ///< once it is settled
  };

  bool has_statistics();
  Choice& choice_of(const ConvolutionCall& call);
  Choice choose(const ConvolutionCall& call);
  CudnnPlan choose_by_time(const ConvolutionCall& call, const CudnnPlan& planned);

  CudnnPlans plans_;
  std::optional<EngineChoices> choices_;  ///< where engines are timed
  PlanTimer timer_;
  std::unordered_map<std::string, Choice> chosen_;  ///< by text_key
  std::unordered_set<std::string> refused_;         ///< the same, of what nothing serves
  std::optional<bool> has_statistics_;
  std::int64_t num_untuned_ = 0;  ///< of chosen_: to be timed, and not timed before
};

}  // namespace trainer::cuda
