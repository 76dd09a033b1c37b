#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/change.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/step_flops.h"
#include "engine/report/style.h"

namespace trainer {

/// What `trainer plan` found, as data.
struct PlanFindings {
  std::string experiment_name, config_path;
  std::string device_kind, device_name;
  std::int64_t capacity = 0;
  std::string
      capacity_origin;  ///< "--capacity", "memory.limit", "available on this machine", "free on an idle NVIDIA T4"
  MemoryPlan plan;      ///< under that capacity
  /// Without a bound, where it does not fit: what the run would take.
  std::optional<MemoryPlan> unbounded;
  std::vector<Change> fixes;  ///< where it does not fit
  std::int64_t batch_size = 0;
  std::int64_t largest_batch_size = 0;  ///< that fits, where it does not fit; 0: none
  std::int64_t total_steps = 0;
  std::vector<NamedBytes> outside_allocator;  ///< DeviceModel::outside_allocator
  std::int64_t offload_bytes = 0;             ///< of host memory, in which activations wait
  std::string profile;                        ///< the file that describes the device; empty: it is one of this machine
  std::string workspace_bound;                ///< DeviceModel::workspace_bound
  std::vector<std::string> layer_labels;      ///< by layer
  StepFlops flops;                            ///< of a step of whole batches

  bool is_described() const { return !profile.empty(); }

  /// The plan whose numbers are shown: of the whole run, also where it does not fit.
  const MemoryPlan& shown() const { return unbounded ? *unbounded : plan; }
};

/// The plan for people: the device; verdict and margin; what lies outside the allocator; the stages of the run; where
/// the peak lies and who holds it; the chart.
std::string plan_report(const PlanFindings& findings, const Style& style);

}  // namespace trainer
