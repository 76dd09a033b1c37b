#include "engine/findings/kept_segments.h"

#include "datasets/dataset.h"
#include "engine/plan/capacity.h"
#include "engine/plan/search/compiled_experiment.h"

namespace trainer {

Experiment with_kept_segments(const Experiment& experiment, const PlanTarget& target) {
  Experiment result = experiment;
  if (!experiment.kept_from || experiment.memory.kept) return result;
  const Experiment former = with_kept_segments(*experiment.kept_from, target);
  const std::int64_t capacity =
      target.capacity_given ? target.capacity.num_bytes : within_limit(target.available_bytes, former);
  const CompiledExperiment compiled =
      compile_experiment(former, describe_data(former.data, former.seed), *target.device, capacity);
  result.memory.kept = plan_memory(compiled, capacity).left_cached;
  return result;
}

}  // namespace trainer
