#include "engine/findings/rank_plans.h"

#include <set>

#include "engine/plan/allocator_options.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/compiled_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/routine_walk.h"

namespace trainer {

std::vector<RankPlan> find_rank_plans(const Experiment& settled, const DataDescription& data, const DeviceModel& device,
                                      std::int64_t capacity) {
  const std::int64_t num_ranks = settled.parallel.data;
  if (num_ranks == 1) return {};
  const RunSchedule schedule(settled, data);
  // Ranks up to these have one sample more: Note [Parts of a batch] in engine/batch_part.h.
  std::set<std::int64_t> begins = {0};
  for (const std::int64_t batch :
       {schedule.batch_size(), schedule.odd_batch_size(), schedule.eval_batch_size(), schedule.odd_eval_batch_size()})
    begins.insert(batch % num_ranks);
  std::vector<RankPlan> plans;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    const std::int64_t end = std::next(begin) == begins.end() ? num_ranks : *std::next(begin);
    Experiment experiment = settled;
    experiment.parallel.rank = *begin;
    const CompiledExperiment compiled = compile_experiment(experiment, data, device, capacity);
    MemoryPlan plan = plan_memory(compiled, capacity);
    const bool fits = plan.fits;
    if (!fits) plan = plan_memory(compiled, unlimited_capacity);
    plans.push_back({.first_rank = *begin,
                     .num_ranks = end - *begin,
                     .batch_size = compiled.schedule.own_batch_size(),
                     .fits = fits,
                     .peak_allocated = plan.peak_allocated,
                     .peak_reserved = plan.peak_reserved});
  }
  return plans;
}

std::int64_t communicated_bytes(const Program& program) {
  std::int64_t num_bytes = 0;
  for_each_call(program, program.update, [&](const OpCall& call) {
    if (call.op.kind != OpKind::all_reduce) return;
    const std::int64_t num_ranks = attributes_of<AllReduceAttributes>(call.op).num_ranks;
    for (const TensorType& tensor : call.op.inputs) num_bytes += tensor.num_bytes() * 2 * (num_ranks - 1) / num_ranks;
  });
  return num_bytes;
}

}  // namespace trainer
