#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/errors.h"
#include "engine/graph/data_description.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/search/planning_watch.h"
#include "engine/plan/search/remembered_workspaces.h"
#include "engine/program/recompute/searches.h"

namespace trainer {

/// What planning says of one experiment.
struct Verdict {
  std::optional<ConfigError> problem;  ///< why it cannot be planned: shapes, rules, the device
  bool fits = false;
  /// Of the whole run: under the capacity where it fits, else without a bound, and with the allocator of
  /// `memory.allocator: auto` that takes less.
  std::int64_t peak_reserved = 0;
  StepTime time;
  double computing_share = 1;   ///< of all ranks' time in a step, that in which they compute, as far as links are known
  std::int64_t sent_bytes = 0;  ///< by the rank that sends most, in an update
  std::int64_t samples_per_step = 0;
  bool has_budget = false;  ///< train.checkpointing: auto computes again what must be
};

enum class FitAnswer : std::uint8_t {
  fits,
  does_not_fit,
  cannot_be,  ///< Verdict::problem tells why
};

/// Plans experiments for one device, many of them: what searches for what fits ask. What `train.batch_size: auto` and
/// `train.checkpointing: auto` stand for is settled for the capacity first. Answers are those of make_memory_plan, to
/// the byte. What plans have in common (searches for what to compute again, scratch of convolutions) is asked once.
class Planner {
 public:
  /// All must outlive it; `watch` may be null.
  Planner(const DeviceModel& device, const MachineRates& rates, PlanningWatch* watch = nullptr)
      : device_(device), rates_(rates), watch_(watch) {}
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  Verdict plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
    return plan(experiment, data, capacity, Extent::all);
  }
  /// As plan() where it fits, sooner, for searches among many: of what does not fit it tells no more than that, and
  /// memory.allocator: auto is left its first choice (settle_experiment.h), unless that takes a budget to fit.
  Verdict plan_what_fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity);
  /// plan().fits, sooner: false as soon as it is known. As plan() it throws PlanningInterrupted where the watch wants
  /// it.
  bool fits(const Experiment& experiment, const DataDescription& data, std::int64_t capacity) {
    return answer(experiment, data, capacity) == FitAnswer::fits;
  }
  FitAnswer answer(const Experiment& experiment, const DataDescription& data, std::int64_t capacity);
  /// The same of one stage of a pipeline alone.
  FitAnswer answer_of_stage(const Experiment& experiment, std::int64_t stage, const DataDescription& data,
                            std::int64_t capacity);

  /// Throws PlanningInterrupted where the watch wants it.
  void heed_watch() const;

  /// What planning has cost so far, the same on every machine: about the number of instructions that were compiled and
  /// walked.
  std::int64_t work() const;
  /// Counts work that was done for its questions elsewhere.
  void add_work(std::int64_t num_instructions) { num_instructions_ += num_instructions; }

  const DeviceModel& device() const { return device_; }
  const MachineRates& rates() const { return rates_; }
  PlanningWatch* watch() const { return watch_; }

 private:
  /// Nothing where no batch lends any.
  std::optional<Experiment> with_lent_places(const Experiment& experiment, const DataDescription& data,
                                             std::int64_t capacity);
  enum class Extent : std::uint8_t { all, what_fits };
  Verdict plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity, Extent extent);
  Verdict plan(const Experiment& experiment, const DataDescription& data, std::int64_t capacity, Extent extent,
               PlacedLayouts placed);
  /// Of all these stages.
  FitAnswer answer_of(const std::vector<Experiment>& stages, const DataDescription& data, std::int64_t capacity);
  /// `is_hopeless` as of run_fits.
  FitAnswer answer_of(const std::vector<Experiment>& stages, const DataDescription& data, std::int64_t capacity,
                      PlacedLayouts placed, bool& is_hopeless);

  const RememberedWorkspaces device_;
  const MachineRates& rates_;
  PlanningWatch* const watch_;
  RecomputeSearches searches_;
  std::int64_t num_instructions_ = 0;
};

}  // namespace trainer
