#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/run_schedule.h"
#include "engine/program/schedule.h"

namespace trainer {

// Note [Sums of parts]
// ~~~~~~~~~~~~~~~~~~~~
// With parallel.deterministic a run has the same bits on any number of ranks n that divides the number of parts p, a
// power of two. Each micro-batch is cut into p parts, whatever n is, and every part is computed by itself (a pass), so
// that each kernel sees the same numbers in the same shapes. The gradients of parts are added in one order, that of a
// tree: x0 + x1, x2 + x3, …, then these. It is the order in which ranks add (Note [Sums over ranks] in
// engine/ops/all_reduce.h; of GPUs Note [Sums in one order] in cuda/ops/tree_sum.h), so either end of the tree may be
// theirs:
//
//   shard: none, optimizer       a rank takes p/n parts one behind the other, adds them, and ranks add what they have
//   shard: gradients, parameters ranks take n parts at a time, and add them at once; each adds its parts of the sums
//
// A rank adds as a stack does: the gradients of its pass i, from 0, stay at the depth that is the number of ones in i,
// and behind it as many pairs are added as i ends in ones. So it holds log2(p/n) + 1 gradients at most, and while a
// further micro-batch runs the sum of those before it. Further
// micro-batches are added to the first one, each when it is complete: with whole gradients their sums over ranks are
// then made in front of that, and not in the update.
//
// What else would depend on n: the loss's statistics are kept by part (engine/ops/part_statistics.h), those of batch
// norm are of the part, and the running ones follow the first part of a batch alone, which rank 0 has. Evaluations are
// cut into parts as well, and keep the sums that metrics of numbers follow from in the same way.

/// One routine of a step; `index` is of the list that the program has of its kind.
struct StepItem {
  enum class Kind : std::uint8_t {
    first,          ///< MicroBatch: a pass
    next,           ///< likewise
    other,          ///< likewise, at depth index + 1
    keep,           ///< PartSums::keep_statistics
    merge,          ///< PartSums::merges
    merge_further,  ///< PartSums
    sum_first,
    sum_further,
    add_further,
    update,
  } kind = Kind::update;
  std::size_t index = 0;
  bool is_of_further = false;  ///< behind the first micro-batch, whose sums are then held
  bool is_pass() const { return kind <= Kind::other; }
};

/// Calls `visit(item)` for those of a step, in the order in which they run.
template <typename Visit>
void for_each_step_item(const Program& program, std::int64_t num_micro_batches, Visit&& visit) {
  using enum StepItem::Kind;
  const PartSums& sums = program.part_sums;
  for (std::int64_t m = 0; m < num_micro_batches; ++m) {
    const bool is_first = m == 0;
    for (std::uint64_t part = 0; part < static_cast<std::uint64_t>(sums.num_own); ++part) {
      const auto depth = static_cast<std::size_t>(std::popcount(part));
      visit(depth > 0 ? StepItem{other, depth - 1, !is_first} : StepItem{is_first ? first : next, 0, !is_first});
      if (sums.statistics >= 0) visit(StepItem{keep, part, !is_first});
      for (std::size_t to = depth; to-- > depth - static_cast<std::size_t>(std::countr_one(part));)
        visit(to == 0 && !is_first ? StepItem{merge_further, 0, true} : StepItem{merge, to, !is_first});
    }
    if (!sums.is_on) continue;
    if (sums.sums_over_ranks) visit(StepItem{is_first ? sum_first : sum_further, 0, !is_first});
    if (!is_first) visit(StepItem{add_further, 0, true});
  }
  visit(StepItem{update});
}

/// One that is no pass.
const Routine& routine_of(const Program& program, const StepItem& item);
const Routine& routine_of(const Program::MicroBatch& micro_batch, const StepItem& item);

/// Those of Program::part_sums that there are.
std::vector<const Routine*> part_sum_routines(const Program& program);

/// Makes Program::part_sums, once the passes have been scheduled, so that gradients have their buffers.
void add_part_sums(Program& program, Scheduler& scheduler, const RunSchedule& schedule);

/// Allocates what keeps the loss's statistics, and the sums of metrics, by part, where a batch is cut.
void add_part_statistics(Program& program, Scheduler& scheduler, const RunSchedule& schedule);

/// Sums the loss's statistics over this rank's parts, where it takes several, and over ranks; likewise what evaluations
/// count beside them, where they count.
void append_statistics_sum(Program& program, Scheduler& scheduler, Routine& routine, Phase phase);
void append_counts_sum(Program& program, Scheduler& scheduler, Routine& routine);

/// How the routines of a micro-batch take part in a step.
Scheduler::Pass first_pass();
Scheduler::Pass next_pass(const RunSchedule& schedule);
Scheduler::Pass other_pass(std::size_t depth);

/// Of a graph that is to be scheduled for other parts than the first: leaves running statistics as they are.
void leave_running_statistics(Graph& graph);

}  // namespace trainer
