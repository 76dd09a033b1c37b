#include "engine/findings/find_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/dataset.h"
#include "engine/bytes.h"
#include "engine/config/override_text.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/findings/kept_segments.h"
#include "engine/findings/plan_target.h"
#include "engine/memory/cached_segments.h"
#include "engine/plan/search/choice_space.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/plan/search/evaluation_savings.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/plan/search/fixes.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/offload.h"
#include "engine/program/run_checks.h"
#include "engine/train/measure/measured_steps.h"
#include "engine/train/token_count.h"

namespace trainer {
namespace {

std::string only(const std::vector<std::string>& given) { return given.empty() ? "" : given.front(); }

/// The device that is measured: this machine's, also where --gpu names the same one.
PlanTarget target_of(const PlanRequest& request, const DataDescription& data, const DeviceSource& devices) {
  const Experiment& experiment = request.experiment;
  const std::string gpu = only(request.gpus);
  const std::string capacity = only(request.capacities);
  if (!request.verify || gpu.empty()) return find_plan_target(devices, experiment, data, gpu, capacity);
  const GpuProfile profile = find_gpu_profile(gpu);
  PlanTarget here = find_plan_target(devices, experiment, data, "", capacity);
  if (here.device->name() != profile.name) {
    throw ConfigError(
        fmt::format("--verify runs steps on this machine's device, {}, and --gpu {} describes another one, {}; leave "
                    "one of them out",
                    here.device->name(), gpu, profile.name));
  }
  return here;
}

/// What each rank is planned for: `target`, or each the GPU that --gpu gives it, made in `others`, and then all know
/// the links that there are between these.
std::vector<TargetOfRanks> targets_of_ranks(const PlanRequest& request, const DataDescription& data,
                                            const DeviceSource& devices, PlanTarget& target,
                                            std::vector<PlanTarget>& others) {
  const ParallelConfig& parallel = request.experiment.parallel;
  if (request.rank_gpus.empty()) return {{.target = &target, .num_ranks = total_ranks(parallel)}};
  std::vector<GpuProfile> profiles;
  for (const GpuRanks& gpus : request.rank_gpus) {
    profiles.push_back(find_gpu_profile(gpus.gpu));
    if (profiles.size() > 1)
      others.push_back(find_plan_target(devices, request.experiment, data, gpus.gpu, only(request.capacities)));
  }
  std::vector<GpusOfRanks> gpus;
  std::vector<TargetOfRanks> targets;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const GpuRanks& asked = request.rank_gpus[i];
    gpus.push_back({&profiles[i], asked.num_ranks});
    targets.push_back({.gpu = profiles.size() > 1 ? asked.gpu : "",
                       .target = i == 0 ? &target : &others[i - 1],
                       .num_ranks = asked.num_ranks});
  }
  target.rates.links = links_between(gpus, parallel.ranks_per_node);
  for (PlanTarget& other : others) other.rates.links = target.rates.links;
  return targets;
}

PlanVerification verify(const CompiledExperiment& compiled, const MemoryPlan& plan, Device& device,
                        std::int64_t capacity) {
  constexpr std::int64_t num_steps = 2;
  const LoadedData data = load_data(compiled.experiment.data, compiled.experiment.seed);
  const MeasuredSteps measured = measure_steps(compiled, data, device, capacity, num_steps);
  PlanVerification verification;
  verification.used_before = measured.used_before;
  verification.used_highest = measured.used_highest;
  for (const MeasuredStep& step : measured.steps) {
    const StepMemory* const planned = plan.find(step.step, step.evaluation);
    require_internal(planned != nullptr, "a plan that fits tells of every step");
    verification.lines.push_back({step.step, step.evaluation, *planned, step.memory});
  }
  return verification;
}

/// Of all ranks the least.
std::int64_t least_capacity(std::span<const TargetOfRanks> ranks) {
  std::int64_t least = ranks.front().target->capacity.num_bytes;
  for (const TargetOfRanks& each : ranks) least = std::min(least, each.target->capacity.num_bytes);
  return least;
}

/// A stage of a pipeline that does not fit where rank 0 does, all on alike devices.
std::optional<std::size_t> find_failing_stage(const PlanFindings& findings) {
  if (!findings.plan.fits || findings.parallel.pipeline == 1) return std::nullopt;
  for (std::size_t i = 0; i < findings.ranks.plans.size(); ++i)
    if (const RankPlan& rank = findings.ranks.plans[i]; !rank.fits && rank.gpu.empty()) return i;
  return std::nullopt;
}

/// What would fit, and why it does not as it is.
void advise(const Experiment& asked, const DataDescription& data, const PlanTarget& target, Planner& planner,
            PlanFindings& findings) {
  const std::int64_t capacity = target.capacity.num_bytes;
  Advice advice = find_advice(planner, asked, data, capacity, target.capacity_given ? 0 : target.available_bytes);
  findings.fixes = std::move(advice.fixes);
  findings.largest_batch = advice.largest_batch;
  findings.one_sample_is_too_many = advice.one_sample_is_too_many;
  Experiment failing = asked;
  if (findings.failing_stage) failing.parallel.rank = findings.ranks.plans[*findings.failing_stage].first_rank;
  findings.diagnosis = diagnose(*target.device, failing, data, capacity, 0, std::move(advice.not_enough));
  for (Change& fix : findings.fixes) add_prefix(fix.set, asked.override_prefix);
  for (Change& change : findings.diagnosis.not_enough) add_prefix(change.set, asked.override_prefix);
}

PlannedTarget plan_target(const Experiment& experiment, const DataDescription& data, const PlanTarget& target,
                          PlanningWatch* watch) {
  PlannedTarget row;
  row.device_kind = target.device->kind();
  row.device_name = target.device->name();
  row.profile = target.profile;
  row.capacity = target.capacity.num_bytes;
  row.capacity_origin = target.capacity.origin;
  row.rates = target.rates.origin;
  row.rates_source = target.rates.source;
  row.notes = target.notes;
  row.outside_allocator = target.device->outside_allocator();
  Planner planner(*target.device, target.rates, watch);
  const Experiment settled =
      with_settled_cut(with_settled_batch(planner, experiment, data, row.capacity), data, *target.device, row.capacity);
  if (const std::string text = settled_cut_text(experiment, settled); !text.empty()) row.notes.push_back(text + '.');
  const Verdict verdict = planner.plan(settled, data, row.capacity);
  if (verdict.problem) {
    row.problem = verdict.problem->what();
    // No target can run a configuration that cannot be compiled.
    compile_experiment(experiment, data, *target.device, row.capacity);
    return row;
  }
  row.batch_size = RunSchedule(settled, data).batch_size();
  row.fits = verdict.fits;
  row.peak_reserved = verdict.peak_reserved;
  row.step_seconds = verdict.time.seconds;
  row.samples_per_second = static_cast<double>(verdict.samples_per_step) / row.step_seconds;
  if (!row.fits)
    row.batch_size_that_fits = find_largest_batch(planner, experiment, data, row.capacity).value.value_or(0);
  return row;
}

/// What is known of a GPU that cannot run the experiment.
PlannedTarget refused_target(const std::string& gpu, const std::string& problem) {
  PlannedTarget row;
  row.problem = problem;
  if (gpu.empty()) return row;
  const GpuProfile profile = find_gpu_profile(gpu);
  row.device_kind = "cuda";
  row.device_name = profile.name;
  row.profile = profile.path;
  row.capacity = profile.free_bytes();
  row.capacity_origin = fmt::format("free on an idle {}", profile.name);
  return row;
}

}  // namespace

PlanFindings find_plan(const PlanRequest& request, const DeviceSource& devices,
                       const RatesProblemSink& on_rates_problem, std::optional<PlannedProgram>* planned) {
  const DataDescription data = describe_data(request.experiment.data, request.experiment.seed);
  PlanTarget target = target_of(request, data, devices);
  if (request.capacity_of_run) {
    target.capacity = {*request.capacity_of_run, "as the run had it"};
    target.capacity_given = true;
  }
  std::vector<PlanTarget> of_other_ranks;
  const std::vector<TargetOfRanks> ranks = targets_of_ranks(request, data, devices, target, of_other_ranks);
  const Experiment cut = with_settled_cut(request.experiment, data, *target.device, least_capacity(ranks));
  const Experiment asked = with_kept_segments(cut, target);
  on_rates_problem(target.rates_problem);
  const DeviceModel& device = *target.device;
  const std::int64_t capacity = target.capacity.num_bytes;
  check_ranks_have_samples(asked);
  CompiledExperiment compiled = compile_experiment(asked, data, device, capacity);
  const Experiment& experiment = compiled.experiment;
  const RunSchedule& schedule = compiled.schedule;
  PlanFindings findings;
  findings.experiment_name = experiment.name;
  findings.stage = asked.stage;
  findings.config_path = request.config_path;
  findings.overrides = request.overrides;
  findings.gpu_given = request.rank_gpus.empty() ? only(request.gpus) : gpu_ranks_text(request.rank_gpus);
  findings.capacity_given =
      request.capacity_of_run ? fmt::format("{}", *request.capacity_of_run) : only(request.capacities);
  findings.device_kind = device.kind();
  findings.device_name = device.name();
  findings.capacity = capacity;
  findings.capacity_origin = target.capacity.origin;
  findings.allocator = experiment.memory.allocator;
  if (experiment.memory.kept) findings.kept = experiment.memory.kept->num_bytes();
  findings.allocator_was_chosen = asked.memory.allocator == AllocatorKind::automatic;
  findings.notes = target.notes;
  for (const PlanTarget& other : of_other_ranks)
    for (const std::string& note : other.notes)
      if (std::find(findings.notes.begin(), findings.notes.end(), note) == findings.notes.end())
        findings.notes.push_back(note);
  for (const std::string& warning : run_warnings(experiment, schedule)) findings.notes.push_back(warning);
  if (const std::string text = settled_cut_text(request.experiment, cut); !text.empty())
    findings.notes.push_back(text + '.');
  findings.batch_size = schedule.batch_size();
  findings.asked_batch_size = asked.train.batch_size.number();
  findings.eval_batch_size = schedule.evaluates() ? schedule.eval_batch_size() : 0;
  findings.total_steps = schedule.total_steps();
  findings.outside_allocator = device.outside_allocator();
  findings.process = process_memory(experiment, compiled.program, compiled.data, device);
  findings.offload_bytes = offload_bytes(compiled.program);
  findings.profile = target.profile;
  findings.workspace_bound = device.workspace_bound();
  findings.layer_labels = layer_labels(compiled.program);
  findings.flops = step_flops(compiled.program, schedule);
  findings.time = predict_step_time(compiled.program, schedule, target.rates);
  findings.parallel = experiment.parallel;
  findings.ranks = find_ranks(cut, data, ranks, compiled.program, target.rates);
  findings.ops = step_ops(compiled.program, schedule, target.rates);
  findings.samples_per_step = schedule.step(1).num_samples;
  findings.tokens_per_sample = tokens_of_sample(asked.data, data);
  findings.rates = target.rates.origin;
  findings.rates_source = target.rates.source;
  if (findings.time.seconds > 0) {
    findings.data_supply = find_data_supply(asked, data, devices.usable_threads(), on_rates_problem);
    findings.data_is_unmeasured = !findings.data_supply && has_image_files(asked.data);
  }
  if (findings.data_supply) {
    findings.data_supply->needed = findings.samples_per_second();
    findings.data_supply->steps_use_threads = device.kind() == "cpu";
  }
  findings.plan = plan_memory(compiled, capacity);
  if (const CommunicationMemory nccl = device.communication_memory(rank_layout(asked.parallel)); !nccl.formula.empty())
    findings.notes.push_back(
        fmt::format("What NCCL holds of each GPU beside the allocator is an estimate, {}: {}. A run measures it.",
                    format_bytes(nccl.num_bytes), nccl.formula));
  Planner planner(device, target.rates, request.watch);
  if (!findings.plan.fits) {
    findings.unbounded = plan_memory(compiled, unlimited_capacity);
    if (findings.allocator_was_chosen)
      findings.planned_peak =
          planner.plan(with_allocator(asked, AllocatorKind::planned), compiled.data, capacity).peak_reserved;
  }
  findings.failing_stage = find_failing_stage(findings);
  if (findings.is_advised()) advise(asked, compiled.data, target, planner, findings);
  if (schedule.evaluates()) {
    Experiment as_pasted = experiment;
    as_pasted.memory = asked.memory;  // with another evaluation, auto may stand for another allocator
    findings.evaluation_savings = find_evaluation_savings(planner, as_pasted, compiled.data, findings.shown(),
                                                          schedule.eval_batch_size(), capacity);
  }
  if (request.verify) {
    if (findings.has_ranks())
      findings.notes.emplace_back("--verify has run nothing, since it runs one process.");
    else if (findings.plan.fits)
      findings.verification = verify(compiled, findings.plan, dynamic_cast<Device&>(*target.device), capacity);
    else
      findings.notes.emplace_back("--verify has run nothing, since it does not fit.");
  }
  if (planned != nullptr) *planned = PlannedProgram{std::move(compiled), target.rates};
  return findings;
}

PlanComparison compare_targets(const PlanRequest& request, const DeviceSource& devices,
                               const RatesProblemSink& on_rates_problem) {
  const Experiment& experiment = request.experiment;
  const DataDescription data = describe_data(experiment.data, experiment.seed);
  PlanComparison comparison;
  comparison.experiment_name = experiment.name;
  comparison.config_path = request.config_path;
  comparison.overrides = request.overrides;
  comparison.asked_batch_size = experiment.train.batch_size.number();
  if (comparison.asked_batch_size) {
    comparison.batch_size = RunSchedule(experiment, data).batch_size();
    if (std::optional<std::string> text = smaller_batch_text(comparison.asked_batch_size, comparison.batch_size))
      comparison.notes.push_back(*std::move(text) + '.');
  }
  if (total_ranks(experiment.parallel) > 1)
    comparison.notes.push_back(
        fmt::format("{} ranks train together; this is of rank 0, which has no smaller part of a batch than another{}.",
                    total_ranks(experiment.parallel),
                    experiment.parallel.pipeline > 1 ? ", and the first stage of the pipeline" : ""));
  const auto or_none = [](std::vector<std::string> given) {
    if (given.empty()) given.emplace_back();
    return given;
  };
  const std::vector<std::string> gpus = or_none(request.gpus), capacities = or_none(request.capacities);
  for (const std::string& gpu : gpus) {
    for (const std::string& capacity : capacities) {
      PlannedTarget row;
      row.gpu_given = gpu;
      row.capacity_given = capacity;
      if (request.watch != nullptr)
        request.watch->plans_for(
            fmt::format("{}, {} of {}", row.target(), comparison.targets.size() + 1, gpus.size() * capacities.size()));
      try {
        if (comparison.is_interrupted) throw PlanningInterrupted();
        const PlanTarget target = find_plan_target(devices, experiment, data, gpu, capacity);
        on_rates_problem(target.rates_problem);
        row = plan_target(with_kept_segments(experiment, target), data, target, request.watch);
      } catch (const PlanningInterrupted&) {
        comparison.is_interrupted = true;
        row = refused_target(gpu, "not planned, since it was interrupted");
      } catch (const DeviceError& error) {
        if (gpu.empty()) throw;
        row = refused_target(gpu, error.what());
      }
      row.gpu_given = gpu;
      row.capacity_given = capacity;
      comparison.targets.push_back(std::move(row));
    }
  }
  comparison.sort();
  return comparison;
}

}  // namespace trainer
