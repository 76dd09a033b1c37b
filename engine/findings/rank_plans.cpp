#include "engine/findings/rank_plans.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "engine/errors.h"
#include "engine/findings/kept_segments.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// As it is asked of that rank, which begins with its own cache where the stage before leaves one.
Experiment of_rank(const Experiment& asked, std::int64_t rank) {
  Experiment experiment = asked;
  experiment.parallel.rank = rank;
  experiment.memory.kept = nullptr;
  if (experiment.kept_from)
    experiment.kept_from = std::make_shared<const Experiment>(of_rank(*experiment.kept_from, rank));
  return experiment;
}

/// Ranks from one of these to the next have parts of the same sizes: Note [Parts of a batch] in engine/batch_part.h.
std::set<std::int64_t> begins_of_parts(const Experiment& settled, const DataDescription& data) {
  const RunSchedule schedule(settled, data);
  std::set<std::int64_t> begins = {0};
  for (const std::int64_t batch :
       {schedule.batch_size(), schedule.odd_batch_size(), schedule.eval_batch_size(), schedule.odd_eval_batch_size()})
    begins.insert(batch % settled.parallel.data);
  return begins;
}

RankPlan plan_rank(const Experiment& asked, std::int64_t rank, const DataDescription& data, const PlanTarget& target) {
  const std::int64_t capacity = target.capacity.num_bytes;
  const Experiment experiment = with_kept_segments(of_rank(asked, rank), target);
  const CompiledExperiment compiled = compile_experiment(experiment, data, *target.device, capacity);
  MemoryPlan plan = plan_memory(compiled, capacity);
  const bool fits = plan.fits;
  if (!fits) plan = plan_memory(compiled, unlimited_capacity);
  MachineRates of_one = target.rates;
  of_one.links = {};
  return {.first_rank = rank,
          .num_ranks = 1,
          .gpu = {},
          .capacity = capacity,
          .batch_size = compiled.schedule.own_batch_size(),
          .fits = fits,
          .peak_allocated = plan.peak_allocated,
          .peak_reserved = plan.peak_reserved,
          .compute_seconds = predict_step_time(compiled.program, compiled.schedule, of_one).seconds};
}

/// Of an update; nothing where a link that it takes is not known.
std::optional<double> update_seconds(const Program& program, const RankLinks& links) {
  std::optional<double> seconds = 0;
  for_each_call(program, program.update, [&](const OpCall& call) {
    const std::optional<double> of_call = exchange_seconds(exchange_of(call.op), links);
    seconds = seconds && of_call ? std::optional(*seconds + *of_call) : std::nullopt;
  });
  return seconds;
}

}  // namespace

bool RankFindings::fit() const {
  return std::all_of(plans.begin(), plans.end(), [](const RankPlan& rank) { return rank.fits; });
}

std::int64_t RankFindings::size() const {
  std::int64_t size = 0;
  for (const RankPlan& plan : plans) size += plan.num_ranks;
  return size;
}

double RankFindings::step_seconds() const {
  double slowest = 0;
  for (const RankPlan& plan : plans) slowest = std::max(slowest, plan.compute_seconds);
  return slowest + communication_seconds.value_or(0);
}

std::optional<double> RankFindings::efficiency() const {
  if (!communication_seconds) return std::nullopt;
  double computing = 0;
  for (const RankPlan& plan : plans) computing += static_cast<double>(plan.num_ranks) * plan.compute_seconds;
  return computing / (static_cast<double>(size()) * step_seconds());
}

const RankPlan& RankFindings::highest() const {
  require_internal(!plans.empty(), "there are several ranks");
  return *std::max_element(plans.begin(), plans.end(), [](const RankPlan& a, const RankPlan& b) {
    return std::pair(a.peak_reserved, a.peak_allocated) < std::pair(b.peak_reserved, b.peak_allocated);
  });
}

RankFindings find_ranks(const Experiment& asked, const DataDescription& data, std::span<const TargetOfRanks> targets,
                        const Program& program, const RankLinks& links) {
  RankFindings findings;
  const std::int64_t num_ranks = asked.parallel.data;
  if (num_ranks == 1) return findings;
  std::set<std::int64_t> begins = begins_of_parts(asked, data);
  std::int64_t end_of_targets = 0;
  for (const TargetOfRanks& each : targets) {
    begins.insert(end_of_targets);
    end_of_targets += each.num_ranks;
  }
  require_internal(end_of_targets == num_ranks, "every rank has a target");
  auto target = targets.begin();
  std::int64_t end_of_target = target->num_ranks;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    if (*begin == end_of_target) end_of_target += (++target)->num_ranks;
    RankPlan plan = plan_rank(asked, *begin, data, *target->target);
    plan.num_ranks = (std::next(begin) == begins.end() ? num_ranks : *std::next(begin)) - *begin;
    plan.gpu = target->gpu;
    findings.plans.push_back(std::move(plan));
  }
  findings.communicated_bytes = communicated_bytes(program);
  findings.links = links;
  findings.communication_seconds = update_seconds(program, links);
  return findings;
}

std::int64_t communicated_bytes(const Program& program) {
  std::int64_t num_bytes = 0;
  for_each_call(program, program.update, [&](const OpCall& call) { num_bytes += exchange_of(call.op).sent_bytes; });
  return num_bytes;
}

}  // namespace trainer
