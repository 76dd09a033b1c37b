#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/plan/out_of_memory_context.h"
#include "engine/plan/peak_uses.h"
#include "engine/program/run_schedule.h"

namespace trainer {

struct StepMemory {
  std::int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;
  std::int64_t requested = 0, allocated = 0, reserved = 0;  ///< at the end of the step
  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

/// The first, with the higher peaks of the two.
StepMemory highest_of(StepMemory memory, const StepMemory& other);

/// What an allocator's counters say of the step since its peaks were reset.
StepMemory step_memory(const MemoryStatistics& statistics);

/// Steps that behave alike, one after the other.
struct PlannedSteps {
  std::int64_t first_step = 0;  ///< 0: loading
  std::int64_t count = 1;
  bool evaluation = false;  ///< the evaluation after first_step
  StepMemory memory;
};

/// Where the highest allocated value of the run lies.
struct PlanPeak {
  std::int64_t allocated = 0;
  std::int64_t step = 0;
  bool evaluation = false;  ///< in the one behind the step
  Phase phase = Phase::load;
  std::string layer, op, routine;
  LiveMemory live;
  PeakUses uses;                        ///< sums to `allocated`
  CategoryBytes category_peaks{};       ///< the most of each category in that step, each at a moment of its own
  std::vector<TimelinePoint> timeline;  ///< of the whole step that holds the peak
};

/// The exact prediction: the program through the real allocator over a simulated source.
struct MemoryPlan {
  bool fits = true;
  std::int64_t capacity = 0;
  std::int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;  ///< over the run
  /// Of reserved, what blocks have reached, or may have in a stage before: Note [Touched pages] in touched_pages.h.
  std::int64_t peak_touched = 0;
  std::int64_t num_alloc_retries = 0;
  /// From which step on layouts are placed: Note [Placed layouts] in placed_layouts.h. -1: none is.
  std::int64_t first_placed_step = -1;
  StepMemory first_step, steady_step;  ///< the first step, and the last one of whole batches (any, if there is none)
  /// Run-length list over load, steps and evaluations, in order, without the cycles below.
  std::vector<PlannedSteps> steps;
  /// Once a whole number of epochs leaves the memory as it found it, the run repeats itself: the steps behind
  /// cycle_first_step + cycle_num_steps and before cycle_end behave as those from cycle_first_step on, again and again.
  /// cycle_num_steps = 0: all steps are listed.
  std::int64_t cycle_first_step = 0, cycle_num_steps = 0, cycle_end = 0;
  PlanPeak peak;
  /// What the allocator has cached once the run is over and nothing is live: what a stage behind it may begin with.
  /// Null where it does not fit.
  std::shared_ptr<const CachedSegments> left_cached;
  /// Where it does not fit. (A planned segment that does not fit is refused before anything is allocated: then the
  /// steps and peaks above are those of a capacity that suffices.)
  std::optional<OutOfMemoryContext> failure;
  bool failure_in_evaluation = false;  ///< in the evaluation after failure->step

  /// How many steps (or evaluations) of the run an entry of `steps` stands for, repeated cycles included.
  std::int64_t num_occurrences(const PlannedSteps& entry) const;
  /// What is predicted of a step, or of the evaluation after it; null where the plan ended before it.
  const StepMemory* find(std::int64_t step, bool evaluation) const;
};

/// Plans the whole run: every step and evaluation of the schedule. Repeating states are recognised, so the time does
/// not grow with the number of epochs. For `options` see engine/plan/allocator_options.h.
MemoryPlan make_memory_plan(const Program& program, const RunSchedule& schedule, std::int64_t capacity,
                            const CachingAllocatorOptions& options = {});

/// Plans writing a text (Program::generation): loading, a piece of the prompt as step 1, a token as steps 2 and 3.
MemoryPlan make_text_plan(const Program& program, std::int64_t capacity, const CachingAllocatorOptions& options = {});

/// Plans predicting (Program::prediction): loading, then each batch size twice, the whole one as steps 1 and 2, the odd
/// last one as steps 3 and 4. A step ends behind the release of its prediction.
MemoryPlan make_prediction_plan(const Program& program, std::int64_t capacity,
                                const CachingAllocatorOptions& options = {});

/// What searches ask of a plan, in one walk: fits, peak_reserved and first_placed_step of make_memory_plan. Where it
/// does not fit, the peak is the one before memory ran out.
struct PlannedPeak {
  bool fits = true;
  std::int64_t peak_reserved = 0;
  std::int64_t first_placed_step = -1;
};
PlannedPeak plan_peak(const Program& program, const RunSchedule& schedule, std::int64_t capacity,
                      const CachingAllocatorOptions& options = {});

/// What is told where memory ran out for the one segment of a program whose buffers have places: who would have held it
/// at the peak. Its request is that peak.
OutOfMemoryContext describe_refused_segment(const Program& program, const RunSchedule& schedule,
                                            const AllocationFailure& failure);

/// A capacity no plan reaches.
inline constexpr std::int64_t unlimited_capacity = std::int64_t{1} << 60;

}  // namespace trainer
