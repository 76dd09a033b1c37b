#include "engine/plan/search/planner.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "engine/plan/communicated_bytes.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/pipeline_time.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/run_fits.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/lent_places.h"

namespace trainer {
namespace {

/// Calls `ask`; why that cannot be, where it cannot.
std::optional<ConfigError> problem_in(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const ConfigError& error) {
    return error;
  } catch (const DataError& error) {
    return ConfigError(error.what());
  } catch (const DeviceError& error) {
    return ConfigError(error.what());
  }
  return std::nullopt;
}

// In instructions, by the time they take; a library's own planner takes longer than a rule.
constexpr std::int64_t work_of_plan = 200, work_of_convolution = 1000, work_of_planned_convolution = 40'000,
                       work_of_searched_node = 500;

bool plans_convolutions(const DeviceModel& device) {
  return device.kind() == "cuda" && device.workspace_bound().empty();
}

/// memory.allocator: auto, and no batch size that would have to be known first.
bool chooses_allocator(const Experiment& experiment) {
  return experiment.memory.allocator == AllocatorKind::automatic && !experiment.train.batch_size.is_automatic();
}

/// As it is for the first rank of each stage of a pipeline, which holds most of those that have it.
std::vector<Experiment> of_each_stage(const Experiment& experiment) {
  std::vector<Experiment> stages = {experiment};
  if (experiment.parallel.pipeline == 1) return stages;
  const RankLayout ranks = rank_layout(experiment.parallel);
  stages.resize(static_cast<std::size_t>(ranks.num_stages), experiment);
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    stages[stage].parallel.rank = ranks.num_tensor * ranks.num_data * static_cast<std::int64_t>(stage);
  return stages;
}

std::vector<Experiment> with_allocator(std::vector<Experiment> stages, AllocatorKind kind) {
  for (Experiment& stage : stages) stage = trainer::with_allocator(std::move(stage), kind);
  return stages;
}

void predict_times(const std::vector<Program>& stages, const RunSchedule& schedule, const MachineRates& rates,
                   Verdict& verdict) {
  if (stages.size() == 1) {
    verdict.time = predict_step_time(stages.front(), schedule, rates);
    verdict.computing_share = 1 - verdict.time.communication / verdict.time.seconds;
    return;
  }
  std::vector<const Program*> programs;
  programs.reserve(stages.size());
  for (const Program& program : stages) programs.push_back(&program);
  const PipelineTime time = predict_pipeline_time(programs, schedule, rates);
  double computing = 0;
  for (const double busy : time.busy_seconds) computing += busy + rates.step_seconds;
  verdict.time = time.step;
  verdict.computing_share = computing / (static_cast<double>(stages.size()) * time.step.seconds);
}

}  // namespace

// For memory.allocator: auto as settle_experiment does, with each planned once; where neither fits, what would take
// less. What fits with placed layouts fits with one planned segment as well.

void Planner::heed_watch() const {
  if (watch_ != nullptr && watch_->is_interrupted()) throw PlanningInterrupted();
}

Verdict Planner::plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity, Extent extent) {
  heed_watch();
  if (!chooses_allocator(experiment)) return plan(experiment, data, capacity, extent, PlacedLayouts::where_needed);
  const auto plan_with = [&](AllocatorKind kind) {
    return plan(with_allocator(experiment, kind), data, capacity, extent, PlacedLayouts::never);
  };
  Verdict caching = plan_with(AllocatorKind::caching);
  if ((caching.fits && !caching.has_budget) || caching.problem) return caching;
  Verdict planned = plan_with(AllocatorKind::planned);
  if (planned.fits || caching.fits) return planned.fits ? planned : caching;
  if (!planned.problem) {
    if (const auto lent = with_lent_places(experiment, data, capacity))
      return plan(*lent, data, capacity, extent, PlacedLayouts::never);
  }
  return planned.peak_reserved < caching.peak_reserved ? planned : caching;
}

Verdict Planner::plan_what_fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  heed_watch();
  if (!chooses_allocator(experiment))
    return plan(experiment, data, capacity, Extent::what_fits, PlacedLayouts::where_needed);
  Verdict caching =
      plan(with_allocator(experiment, AllocatorKind::caching), data, capacity, Extent::what_fits, PlacedLayouts::never);
  return caching.fits && caching.has_budget ? plan(experiment, data, capacity) : caching;
}

FitAnswer Planner::answer(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
  return answer_of(of_each_stage(experiment), data, capacity);
}

FitAnswer Planner::answer_of_stage(const Experiment& experiment, std::int64_t stage, const DataDescription& data,
                                   std::int64_t capacity) {
  return answer_of({of_each_stage(experiment)[static_cast<std::size_t>(stage)]}, data, capacity);
}

FitAnswer Planner::answer_of(const std::vector<Experiment>& stages, const DataDescription& data,
                             std::int64_t capacity) {
  heed_watch();
  const Experiment& experiment = stages.front();
  bool is_hopeless = false;
  if (!chooses_allocator(experiment))
    return answer_of(stages, data, capacity, PlacedLayouts::where_needed, is_hopeless);
  const FitAnswer caching =
      answer_of(with_allocator(stages, AllocatorKind::caching), data, capacity, PlacedLayouts::never, is_hopeless);
  if (caching != FitAnswer::does_not_fit) return caching;
  // Whole pages are less than the capacity, and a budget may be another.
  const bool is_alike = may_have_lent_places(experiment) && !experiment.memory.expandable_segments;
  if (is_hopeless && is_alike) return caching;
  is_hopeless = false;
  const FitAnswer planned =
      answer_of(with_allocator(stages, AllocatorKind::planned), data, capacity, PlacedLayouts::never, is_hopeless);
  if (planned != FitAnswer::does_not_fit || is_hopeless) return planned;
  return with_lent_places(experiment, data, capacity) ? FitAnswer::fits : planned;
}

std::optional<Experiment> Planner::with_lent_places(const Experiment& experiment, const DataDescription& data,
                                                    std::int64_t capacity) {
  if (!may_have_lent_places(experiment)) return std::nullopt;
  Experiment planned = with_allocator(experiment, AllocatorKind::planned);
  const std::optional<LentPlaces> places = find_lent_places(planned, data, device_, capacity, num_instructions_);
  if (!places) return std::nullopt;
  planned.memory.places = *places;
  return planned;
}

Verdict Planner::plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity, Extent extent,
                      PlacedLayouts placed) {
  Verdict verdict;
  verdict.fits = true;
  verdict.problem = problem_in([&] {
    check_ranks_have_samples(experiment);
    std::vector<Program> programs;
    for (const Experiment& of_stage : of_each_stage(experiment)) {
      num_instructions_ += work_of_plan;
      RecomputeFronts fronts{.by_batch_size = {}, .searches = &searches_};
      const Experiment settled = settle_experiment(of_stage, data, device_, capacity, &searches_, placed);
      const RunSchedule schedule(settled, data);
      const Program& program = programs.emplace_back(compile(settled, data, device_, &fronts));
      num_instructions_ += num_instructions_of(program);
      const PlannedPeak peak = plan_peak(program, schedule, capacity, allocator_options(settled, placed));
      if (!peak.fits && extent == Extent::what_fits) {
        verdict.fits = false;
        return;
      }
      const std::int64_t peak_reserved =
          peak.fits ? peak.peak_reserved
                    : plan_peak(program, schedule, unlimited_capacity, allocator_options(settled)).peak_reserved;
      verdict.peak_reserved = std::max(verdict.peak_reserved, peak_reserved);
      verdict.fits = verdict.fits && peak.fits;
      const CheckpointingConfig& checkpointing = settled.train.checkpointing;
      verdict.has_budget = verdict.has_budget ||
                           (checkpointing.type == CheckpointingConfig::Type::automatic && checkpointing.budget > 0);
    }
    const RunSchedule schedule(experiment, data);
    predict_times(programs, schedule, rates_, verdict);
    if (total_ranks(experiment.parallel) > 1)
      for (const Program& program : programs)
        verdict.sent_bytes = std::max(verdict.sent_bytes, communicated_bytes(program, schedule));
    verdict.samples_per_step = schedule.step(1).num_samples;
  });
  if (verdict.problem) verdict.fits = false;
  return verdict;
}

FitAnswer Planner::answer_of(const std::vector<Experiment>& stages, const DataDescription& data, std::int64_t capacity,
                             PlacedLayouts placed, bool& is_hopeless) {
  bool is_fitting = true;
  const std::optional<ConfigError> problem = problem_in([&] {
    check_ranks_have_samples(stages.front());
    for (const Experiment& of_stage : stages) {
      num_instructions_ += work_of_plan;
      RecomputeFronts fronts{.by_batch_size = {}, .searches = &searches_};
      const Experiment settled = settle_experiment(of_stage, data, device_, capacity, &searches_, placed);
      is_fitting = run_fits(settled, data, device_, capacity, &fronts, num_instructions_, placed, &is_hopeless);
      if (!is_fitting) return;
    }
  });
  if (problem) return FitAnswer::cannot_be;
  return is_fitting ? FitAnswer::fits : FitAnswer::does_not_fit;
}

std::int64_t Planner::work() const {
  const std::int64_t of_question = plans_convolutions(device_) ? work_of_planned_convolution : work_of_convolution;
  return num_instructions_ + of_question * device_.num_asked() + work_of_searched_node * searches_.num_nodes_searched();
}

}  // namespace trainer
