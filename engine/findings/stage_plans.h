#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/findings/find_plan.h"
#include "engine/findings/find_prediction_plan.h"

namespace trainer {

/// What a stage adds to its plan in a list of them.
struct StagePlan {
  PlanFindings findings;  ///< its `stage` is named
  std::int64_t num_parameters = 0, num_trained = 0;
  /// At the peak, by category, beyond what the stage before held at its own; of the first stage all.
  CategoryBytes beyond_before{};
  /// Reserved at its end: what goes back to the device, and what stays cached for the next stage (`purge: false`).
  std::int64_t purged = 0, kept = 0;
  bool is_purged_to_fit =
      false;  ///< in spite of `purge: false`: it does not fit beside what the stage before has cached
};

/// What `trainer plan` found of an experiment with stages (Note [Stages] in engine/config/stages.h).
struct StagePlans {
  std::string experiment_name;
  std::vector<StagePlan> stages;
  struct Prediction {
    std::string name;
    PredictionPlanFindings findings;  ///< in the batches that fit
  };
  std::vector<Prediction> predictions;  ///< behind them

  bool fits() const;
  /// Position of the one that reserves most.
  std::size_t largest() const;
};

/// What is asked of a prediction that stands behind `trained`.
PredictionPlanRequest prediction_request(const Experiment& trained, const DataDescription& data);

/// The plan of each stage as find_plan() makes it, and that their parameters go on; of an experiment without stages,
/// which predicts, that of the whole. What they were made of goes to `planned`, unless that is null. Throws as
/// find_plan() does.
StagePlans find_stage_plans(const PlanRequest& request, const DeviceSource& devices,
                            const RatesProblemSink& on_rates_problem, std::vector<PlannedProgram>* planned = nullptr);

}  // namespace trainer
