#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/findings/data_supply.h"
#include "engine/findings/rank_plans.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/process_memory.h"
#include "engine/plan/search/change.h"
#include "engine/plan/search/diagnosis.h"
#include "engine/plan/search/evaluation_savings.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/step_flops.h"
#include "engine/plan/step_ops.h"

namespace trainer {

/// What a plan said of the first steps against what the device's allocator counted when they were run.
struct PlanVerification {
  struct Line {
    std::int64_t step = 0;  ///< 0: loading
    bool evaluation = false;
    StepMemory predicted, measured;
  };
  std::vector<Line> lines;
  std::int64_t used_before = 0, used_highest = 0;  ///< of the whole process, by the device's own count

  bool is_equal() const;
};

/// What `trainer plan` found, as data.
struct PlanFindings {
  std::string experiment_name, config_path;
  std::string stage{};                    ///< of several stages that which this is the plan of
  std::vector<std::string> overrides;     ///< the experiment was loaded with
  std::string gpu_given, capacity_given;  ///< as --gpu and --capacity took them; empty: not given
  std::string device_kind, device_name;
  std::int64_t capacity = 0;
  std::string
      capacity_origin;  ///< "--capacity", "memory.limit", "available on this machine", "free on an idle NVIDIA T4"
  AllocatorKind allocator = AllocatorKind::caching;
  bool allocator_was_chosen = false;  ///< memory.allocator: auto stands for it
  MemoryPlan plan;                    ///< under that capacity
  std::int64_t kept = 0;              ///< of a stage: what the stage before has cached, and it begins with
  /// Without a bound, where it does not fit: what the run would take.
  std::optional<MemoryPlan> unbounded;
  /// With the planned allocator, where it does not fit and the allocator was chosen.
  std::int64_t planned_peak = 0;
  /// Of a pipeline where rank 0 fits and others do not, the first of these, in ranks.plans, which what follows is
  /// about.
  std::optional<std::size_t> failing_stage;
  std::vector<Change> fixes;  ///< where it does not fit
  Diagnosis diagnosis{};      ///< where it does not fit: why, and what would not help
  std::int64_t batch_size = 0;
  std::optional<std::int64_t> asked_batch_size;  ///< train.batch_size, where it is a number: no less than batch_size
  // Of Advice, where it does not fit.
  LargestValue largest_batch;
  bool one_sample_is_too_many = false;
  std::int64_t total_steps = 0;
  std::vector<NamedBytes> outside_allocator;  ///< DeviceModel::outside_allocator
  ProcessMemory process;                      ///< what this process will hold beside the allocator
  std::int64_t offload_bytes = 0;             ///< of host memory, in which activations wait
  std::string profile;                        ///< the file that describes the device; empty: it is one of this machine
  std::string workspace_bound;                ///< DeviceModel::workspace_bound
  std::vector<std::string> layer_labels;      ///< by layer
  StepFlops flops;                            ///< of a step of whole batches
  StepTime time;                              ///< of such a step, predicted; 0: not known
  std::vector<StepOp> ops;                    ///< of such a step
  std::int64_t samples_per_step = 0;
  std::int64_t tokens_per_sample = 0;  ///< 0: samples are no tokens
  MachineRates::Origin rates = MachineRates::Origin::assumed;
  std::string rates_source;               ///< MachineRates::source
  std::optional<DataSupply> data_supply;  ///< where it was measured and the time of a step is known
  bool data_is_unmeasured = false;        ///< image files that are there, of which nothing was measured
  std::int64_t eval_batch_size = 0;       ///< 0: the run does not evaluate
  EvaluationSavings evaluation_savings{};
  std::vector<std::string> notes;  ///< sentences about what was asked for and is not as it seems
  std::optional<PlanVerification> verification;
  ParallelConfig parallel{};
  RankFindings ranks{};  ///< of several: all of them; the rest is of rank 0

  bool is_described() const { return !profile.empty(); }
  bool has_ranks() const { return !ranks.plans.empty(); }

  /// Every rank.
  bool fits() const { return plan.fits && ranks.fit(); }
  /// Whether it is known why it does not fit, and what would: not where ranks have other GPUs than rank 0.
  bool is_advised() const { return !plan.fits || failing_stage; }
  const std::optional<OutOfMemoryContext>& failure() const {
    return failing_stage ? ranks.plans[*failing_stage].failure : plan.failure;
  }
  /// The plan whose numbers are shown: of the whole run, also where it does not fit.
  const MemoryPlan& shown() const { return unbounded ? *unbounded : plan; }
  /// Of all ranks, which wait for each other; 0: not known.
  double step_seconds() const { return ranks.plans.empty() ? time.seconds : ranks.step_seconds(); }
  double samples_per_second() const {
    return step_seconds() > 0 ? static_cast<double>(samples_per_step) / step_seconds() : 0;
  }
  double tokens_per_second() const { return samples_per_second() * static_cast<double>(tokens_per_sample); }
};

}  // namespace trainer
