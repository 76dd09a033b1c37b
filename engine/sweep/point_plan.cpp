#include "engine/sweep/point_plan.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "engine/config/key_effects.h"
#include "engine/config/override_text.h"
#include "engine/findings/kept_segments.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/train/token_count.h"

namespace trainer {
namespace {

/// What a device of this machine is made from.
std::string device_key(const Experiment& experiment) {
  std::string key;
  for (const KeyEffects& each : key_effects())
    if (each.is_of_device) key += override_of(each.key, experiment) + " ";
  return key;
}

void fill_in(const Experiment& asked, const DataDescription& data, const PlanTarget& target, SweepRow& row) {
  const std::int64_t capacity = target.capacity.num_bytes;
  row.capacity = capacity;
  const CompiledExperiment compiled =
      compile_experiment(with_settled_cut(with_kept_segments(asked, target), data, *target.device, capacity), data,
                         *target.device, capacity);
  row.batch_size = compiled.schedule.batch_size();
  row.asked_batch_size = asked.train.batch_size.number();
  MemoryPlan plan = plan_memory(compiled, capacity);
  row.status = plan.fits ? PointStatus::fits : PointStatus::does_not_fit;
  if (!plan.fits) plan = plan_memory(compiled, unlimited_capacity);
  row.peak_requested = plan.peak_requested;
  row.peak_allocated = plan.peak_allocated;
  row.peak_reserved = plan.peak_reserved;
  row.by_category = plan.peak.live.by_category;
  if (compiled.schedule.total_steps() == 0) return;
  row.step_seconds = predict_step_time(compiled.program, compiled.schedule, target.rates).seconds;
  row.samples_per_second = static_cast<double>(compiled.schedule.step(1).num_samples) / *row.step_seconds;
  if (const std::int64_t tokens = tokens_of_sample(asked.data, data); tokens > 0)
    row.tokens_per_second = static_cast<double>(tokens) * *row.samples_per_second;
}

/// Whether a stage is what decides whether the point fits, rather than another.
bool needs_more(const SweepRow& stage, const SweepRow& other) {
  const bool fits = stage.status == PointStatus::fits, other_fits = other.status == PointStatus::fits;
  if (fits != other_fits) return !fits;
  return std::pair(stage.peak_reserved, stage.peak_allocated) > std::pair(other.peak_reserved, other.peak_allocated);
}

}  // namespace

const PlanTarget& PointPlanner::target_for(const Experiment& experiment, const DataDescription& data) {
  // A described GPU costs little, and what it takes of an experiment is checked where it is made.
  if (!gpu_.empty()) return target_ = find_plan_target(devices_, experiment, data, gpu_, capacity_);
  const std::string device = device_key(experiment);
  if (device != device_) {
    target_ = find_plan_target(devices_, experiment, data, "", capacity_);
    on_rates_problem_(target_.rates_problem);
    if (device_.empty())
      available_bytes_ =
          target_.available_bytes + host_reserve(experiment, data, *target_.device, /*dataset_is_loaded=*/false);
    device_ = device;
  }
  if (!target_.capacity_given) {
    target_.capacity.num_bytes = within_limit(
        memory_for_allocator(available_bytes_, experiment, data, *target_.device, /*dataset_is_loaded=*/false),
        experiment);
  }
  return target_;
}

const PlanTarget& PointPlanner::target_for(const Experiment& experiment) {
  return target_for(experiment, describe_data(experiment.data, experiment.seed));
}

void PointPlanner::plan(const Experiment& experiment, SweepRow& row) {
  const auto fail = [&](ExitCode code, const std::string& why) {
    row.status = PointStatus::failed;
    row.exit_code = static_cast<int>(code);
    row.error = why;
  };
  try {
    std::vector<const Experiment*> trained;
    for (const StageConfig& stage : experiment.stages) trained.push_back(stage.experiment.get());
    if (trained.empty()) trained.push_back(&experiment);
    std::optional<SweepRow> largest;
    for (const Experiment* each : trained) {
      SweepRow planned = row;
      const DataDescription data = describe_data(each->data, each->seed);
      fill_in(*each, data, target_for(*each, data), planned);
      if (!largest || needs_more(planned, *largest)) largest = std::move(planned);
    }
    row = *std::move(largest);
  } catch (const Error& error) {
    fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    fail(ExitCode::unexpected, "this machine has no memory left for the plan itself");
  }
}

}  // namespace trainer
