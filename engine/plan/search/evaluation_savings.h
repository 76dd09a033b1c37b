#pragma once

#include <cstdint>
#include <optional>

#include "engine/plan/memory_plan.h"
#include "engine/plan/search/planner.h"

namespace trainer {

/// A smaller evaluation batch that was planned.
struct EvaluationCut {
  std::int64_t eval_batch_size = 0;
  std::int64_t peak_reserved = 0;  ///< of the whole run
};

/// What smaller evaluation batches would save of the peak reserved.
struct EvaluationSavings {
  /// Nothing, whatever the batch: the peak is reached before the first evaluation.
  bool is_proven_nothing = false;
  bool of_one_are_nothing = false;   ///< a batch of one was planned, and reserves no less
  std::optional<EvaluationCut> cut;  ///< one that reserves less: halves of the batch as long as that lowers the peak
};

/// Whether evaluation, and not training, allocates or reserves the most.
bool evaluation_sets_peak(const MemoryPlan& plan);

/// `plan` is that of `experiment` which is shown: under `capacity`, or without a bound where it does not fit. The run
/// evaluates, in batches of `eval_batch_size`.
EvaluationSavings find_evaluation_savings(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                          const MemoryPlan& plan, std::int64_t eval_batch_size, std::int64_t capacity);

}  // namespace trainer
