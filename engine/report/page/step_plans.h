#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/findings/traced_plan.h"
#include "engine/report/record/run_record.h"

namespace trainer {

/// What was planned for the steps of a run, by the plans of its stages.
class StepPlans {
 public:
  /// Both must outlive it. Throws DataError where the run's stage events are none.
  StepPlans(const RunRecord& run, std::span<const TracedPlan> plans);

  /// Null where nothing was planned for it.
  const StepMemory* find(const RecordedStep& step) const;

 private:
  struct Stage {
    const MemoryPlan* plan = nullptr;  ///< null: there is none
    std::int64_t first_step = 1;       ///< of the run; a stage's plan counts its own steps from 1
  };
  std::vector<Stage> stages_;  ///< by RecordedStep::stage
};

}  // namespace trainer
