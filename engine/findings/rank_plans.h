#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/findings/plan_target.h"
#include "engine/graph/data_description.h"
#include "engine/plan/link_rates.h"
#include "engine/plan/live_buffers.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/pipeline_time.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// What some ranks hold each: first_rank, first_rank + stride, …; their devices are alike, and what each holds at most.
struct RankPlan {
  std::int64_t first_rank = 0, num_ranks = 1;
  std::int64_t stride = 1;  ///< above 1 where those that share a layer hold different parts of it
  std::string gpu;          ///< as --gpu took it where ranks have different ones; empty: the device of them all
  std::int64_t capacity = 0;
  std::int64_t batch_size = 0;  ///< samples of a whole micro-batch that it takes
  std::int64_t num_parts = 1;   ///< in which it computes them, one behind the other: parallel.deterministic
  std::string layers{};         ///< "wte to h.5", of a stage of a pipeline; empty: all
  bool fits = true;
  std::int64_t peak_allocated = 0, peak_reserved = 0;  ///< without a bound where it does not fit
  CategoryBytes by_category{};                         ///< of peak_allocated
  double compute_seconds = 0;                          ///< of a step, predicted, without what it waits for others
  std::int64_t stage = 0;                              ///< of a pipeline
  std::optional<OutOfMemoryContext> failure{};         ///< where memory runs out, where it does not fit
};

/// What rank 0 comes to with one value of parallel.shard, of which the ranks may have another.
struct ShardPlan {
  Shard shard = Shard::none;
  bool fits = true;
  std::int64_t peak_allocated = 0, peak_reserved = 0;  ///< without a bound where it does not fit
  std::int64_t communicated_bytes = 0;                 ///< as RankFindings has them
};

/// What ranks that follow each other are planned for.
struct TargetOfRanks {
  std::string gpu{};  ///< RankPlan::gpu
  const PlanTarget* target = nullptr;
  std::int64_t num_ranks = 1;
};

/// What several ranks take together.
struct RankFindings {
  std::vector<RankPlan> plans;    ///< all of them; none where there is one rank, and then nothing else holds
  std::vector<ShardPlan> shards;  ///< each value that goes with the others, none first; of ranks that share a batch
  std::int64_t communicated_bytes =
      0;  ///< that rank 0 sends in an update, of a pipeline any rank at most, and receives
  std::optional<PipelineTime>
      pipeline;  ///< of a pipeline of several stages, on one kind of device; message times as far as links are known
  RankLinks links;
  /// That this takes; nothing where a link is not known, and then no predicted time has it in it.
  std::optional<double> communication_seconds;
  double waiting_seconds = 0;  ///< of these, those in which ranks do not compute meanwhile

  bool fit() const;
  std::int64_t size() const;
  /// The slowest rank's work, which all wait for, and the wait for what they tell each other.
  double step_seconds() const;
  /// Of all ranks' time, the share in which they compute; nothing where communication_seconds is not known.
  std::optional<double> efficiency() const;
  /// Of `plans` the one that reserves most, of several the first.
  const RankPlan& highest() const;
};

/// Plans every rank, as many as there are kinds of them. `asked`: not settled yet; `targets`: of all of its
/// ranks; `program`: of one of them, whose rates they are.
RankFindings find_ranks(const Experiment& asked, const DataDescription& data, std::span<const TargetOfRanks> targets,
                        const Program& program, const MachineRates& rates);

}  // namespace trainer
