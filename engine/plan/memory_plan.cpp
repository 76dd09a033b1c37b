#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "engine/memory/simulated_source.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/memory_trace.h"
#include "engine/plan/placed_layouts.h"
#include "engine/plan/step_routines.h"
#include "engine/plan/touched_pages.h"

namespace trainer {

StepMemory highest_of(StepMemory memory, const StepMemory& other) {
  memory.peak_requested = std::max(memory.peak_requested, other.peak_requested);
  memory.peak_allocated = std::max(memory.peak_allocated, other.peak_allocated);
  memory.peak_reserved = std::max(memory.peak_reserved, other.peak_reserved);
  return memory;
}

StepMemory step_memory(const MemoryStatistics& statistics) {
  return {.peak_requested = statistics.requested_bytes.all.peak,
          .peak_allocated = statistics.allocated_bytes.all.peak,
          .peak_reserved = statistics.reserved_bytes.all.peak,
          .requested = statistics.requested_bytes.all.current,
          .allocated = statistics.allocated_bytes.all.current,
          .reserved = statistics.reserved_bytes.all.current};
}

namespace {

/// Where the highest allocated value was seen.
struct PeakPlace {
  std::int64_t allocated = -1;
  std::int64_t step = 0;
  bool evaluation = false;
};

/// Walks a run through the allocator without computing anything.
class Simulation {
 public:
  /// All but the options must outlive it. Without a schedule the program is one that writes texts, or predicts.
  Simulation(const Program& program, const RunSchedule* schedule, std::int64_t capacity,
             const CachingAllocatorOptions& options, TransientPlaces& places)
      : program_(program),
        schedule_(schedule),
        places_(places),
        memory_(capacity),
        traced_(memory_),
        source_(traced_),
        allocator_(make_allocator(program, source_, options)),
        live_(program, *allocator_) {
    plan_.capacity = capacity;
    for (const SegmentSnapshot& segment : allocator_->snapshot().segments)
      source_.touch(reinterpret_cast<const void*>(segment.address), segment.size);
  }

  /// Watches one step (or evaluation) closely: `plan().peak` is filled when the walk has passed it.
  void watch(const PeakPlace& place) { watched_ = place; }

  /// Adds what happens in the watched step.
  void trace(MemoryTrace& trace) { trace_ = &trace; }

  void run() {
    try {
      if (schedule_ != nullptr)
        walk_training(*schedule_);
      else if (program_.prediction)
        walk_predictions();
      else
        walk_text();
    } catch (const Stopped&) {
    }
    traced_.trace(nullptr);  // what the end of the walk gives back is none of the step's
    plan_.num_alloc_retries = num_retries();
    if (plan_.fits && !is_brief_ && watched_.allocated < 0) {
      live_.release_all();
      plan_.left_cached = std::make_shared<const CachedSegments>(allocator_->cached());
    }
    // Pages of 2 MiB, of which the last of a segment may be less.
    plan_.peak_touched = std::min(source_.peak_touched_bytes(), plan_.peak_reserved);
  }

  /// Leaves out what is told of a failure.
  void be_brief() { is_brief_ = true; }

  MemoryPlan& plan() { return plan_; }
  const PeakPlace& peak_place() const { return peak_place_; }

 private:
  struct Stopped {};
  /// An allocation of a layout that failed.
  struct FailedLayout {
    StepMemory memory;
    std::optional<OutOfMemoryContext> context;  ///< none where the walk is brief
  };

  void walk_load() {
    walk_step(0, false, [&] { walk_layout([&] { walk(program_.load); }); });
  }

  /// A piece of the prompt, and two tokens: all others are as these.
  void walk_text() {
    walk_load();
    std::int64_t step = 0;
    for (const Routine* routine :
         {&program_.generation->prompt, &program_.generation->token, &program_.generation->token})
      walk_step(++step, false, [&] { walk_layout([&] { walk(*routine); }); });
    plan_.steady_step = plan_.steps.back().memory;
  }

  /// Each batch size twice: all others are as the second.
  void walk_predictions() {
    walk_load();
    std::int64_t step = 0;
    for (const PredictionRoutines::Batch& batch : program_.prediction->batches)
      for (int i = 0; i < 2; ++i)
        walk_step(++step, false, [&] {
          walk_layout([&] { walk(batch.predict); });
          walk_layout([&] { walk(batch.release); });
        });
    plan_.steady_step = *plan_.find(2, false);
  }

  void walk_training(const RunSchedule& schedule) {
    walk_load();
    if (schedule.evaluates_initially()) walk_step(0, true, [&] { walk_evaluation(schedule); });
    struct EpochStart {
      std::int64_t step, num_retries;
    };
    std::map<std::pair<std::uint64_t, std::int64_t>, EpochStart> epoch_starts;  // by memory and phase
    const std::int64_t last_step = schedule.total_steps();
    std::int64_t step = 1;
    bool has_whole_step = false;
    while (step <= last_step) {
      const RunSchedule::Step shape = schedule.step(step);
      if (shape.first_batch == 0 && plan_.cycle_num_steps == 0) {
        const EpochStart here{step, num_retries()};
        const auto [earlier, is_new] =
            epoch_starts.try_emplace({allocator_->fingerprint(), schedule.evaluation_phase(step)}, here);
        // The same memory at the start of the same sequence: the run repeats itself. Whole cycles are skipped, so that
        // the last steps, with the evaluation at the end, are walked.
        if (!is_new && skip_cycles(schedule, earlier->second.step, earlier->second.num_retries, step)) continue;
      }
      const std::uint64_t before = allocator_->fingerprint();
      const std::int64_t retries_before = num_retries();
      walk_step(step, false, [&] {
        walk_layout([&] {
          for_each_step_routine(program_, schedule, shape,
                                [&](const Routine& routine, std::int64_t) { walk(routine); });
        });
      });
      if (step == 1) plan_.first_step = plan_.steps.back().memory;
      if (!shape.last_is_odd || !has_whole_step) plan_.steady_step = plan_.steps.back().memory;
      has_whole_step = has_whole_step || !shape.last_is_odd;
      if (shape.evaluates) walk_step(step, true, [&] { walk_evaluation(schedule); });
      ++step;
      if (!shape.evaluates && allocator_->fingerprint() == before) {
        const std::int64_t num_alike = schedule.num_steps_alike(step - 1);
        skipped_retries_ += num_alike * (num_retries() - retries_before);
        plan_.steps.back().count += num_alike;
        step += num_alike;
      }
    }
  }

  /// Moves `step` over as many whole cycles as lie before the last step; false where there is none.
  bool skip_cycles(const RunSchedule& schedule, std::int64_t cycle_start, std::int64_t retries_at_start,
                   std::int64_t& step) {
    const std::int64_t cycle = step - cycle_start;
    const std::int64_t num_cycles = (schedule.total_steps() - step) / cycle;
    if (num_cycles == 0) return false;
    plan_.cycle_first_step = cycle_start;
    plan_.cycle_num_steps = cycle;
    plan_.cycle_end = step + num_cycles * cycle;
    skipped_retries_ += num_cycles * (num_retries() - retries_at_start);
    step = plan_.cycle_end;
    return true;
  }

  /// Also those of the steps that were not walked because they equal walked ones.
  std::int64_t num_retries() const { return allocator_->statistics().num_alloc_retries + skipped_retries_; }

  template <typename Body>
  void walk_step(std::int64_t step, bool evaluation, Body&& body) {
    step_ = step;
    is_watched_ = watched_.allocated >= 0 && watched_.step == step && watched_.evaluation == evaluation;
    evaluation_ = evaluation;
    if (is_watched_) plan_.peak.category_peaks = by_category_;
    if (is_watched_ && trace_ != nullptr) begin_trace();
    allocator_->reset_peaks();
    other_peaks_ = {};
    body();
    const StepMemory memory = highest_of(step_memory(allocator_->statistics()), other_peaks_);
    note_peaks(memory);
    if (memory.peak_allocated > peak_place_.allocated)
      peak_place_ = {.allocated = memory.peak_allocated, .step = step, .evaluation = evaluation};
    append({.first_step = step, .count = 1, .evaluation = evaluation, .memory = memory});
    if (is_watched_) throw Stopped{};
  }

  void append(const PlannedSteps& entry) {
    if (!plan_.steps.empty()) {
      PlannedSteps& last = plan_.steps.back();
      const bool is_next = last.first_step > 0 && last.first_step + last.count == entry.first_step;
      if (is_next && !last.evaluation && !entry.evaluation && last.memory == entry.memory) {
        ++last.count;
        return;
      }
    }
    plan_.steps.push_back(entry);
  }

  void note_peaks(const StepMemory& memory) {
    plan_.peak_requested = std::max(plan_.peak_requested, memory.peak_requested);
    plan_.peak_allocated = std::max(plan_.peak_allocated, memory.peak_allocated);
    plan_.peak_reserved = std::max(plan_.peak_reserved, memory.peak_reserved);
  }

  void walk_evaluation(const RunSchedule& schedule) {
    for_each_evaluation_routine(program_, schedule, [&](const auto& routines, std::int64_t times) {
      for (std::int64_t i = 0; i < times; ++i) {
        const std::uint64_t before = allocator_->fingerprint();
        for (const Routine* const routine : routines) walk_layout([&] { walk(*routine); });
        if (allocator_->fingerprint() == before) break;  // the others are the same
      }
    });
  }

  /// Walks what the run lays out together; see Note [Placed layouts].
  template <typename Body>
  void walk_layout(Body&& body) {
    const StepMemory before = step_memory(allocator_->statistics());
    const PlanPeak peak_before = is_watched_ ? plan_.peak : PlanPeak{};
    const CategoryBytes by_category_before = by_category_;
    const bool may_place = live_.holds_only_persistent();
    const std::size_t num_actions = traces() ? trace_->actions.size() : 0;
    allocator_->begin_layout();
    try {
      body();
    } catch (FailedLayout& failed) {
      touched_.clear();
      const std::size_t num_reached = traces() ? trace_->actions.size() : 0;
      live_.release_transient();
      std::optional<RefusedPlaces> refused;
      if (!may_place || !place_layouts(live_, *allocator_, places_, refused)) {
        if (traces()) trace_->actions.resize(num_reached);
        fail(failed);
      }
      by_category_ = by_category_before;
      if (is_watched_) plan_.peak = peak_before;
      if (traces()) undo_layout(num_actions);
      other_peaks_ = highest_of(other_peaks_, before);
      other_peaks_.peak_reserved = std::max(other_peaks_.peak_reserved, failed.memory.peak_reserved);
      allocator_->reset_peaks();
      plan_.first_placed_step = step_;
      allocator_->begin_layout();
      try {
        body();
      } catch (const FailedLayout&) {
        throw InternalError("internal error: blocks of a planned segment have room");
      }
    }
    for (const auto& [address, num_bytes] : touched_) source_.touch(address, num_bytes);
    touched_.clear();
  }

  void walk(const Routine& routine) {
    for (std::size_t i = 0; i < routine.instructions.size(); ++i) {
      const Instruction& instruction = routine.instructions[i];
      if (instruction.kind == Instruction::Kind::run) {
        if (traces()) trace_->actions.push_back(action_of(instruction));
        continue;
      }
      if (instruction.kind == Instruction::Kind::release) {
        if (traces()) trace_->actions.push_back(action_of(instruction));
        by_category_[category_of(instruction)] -= live_.block(instruction.index).size;
        live_.release(instruction.index);
        if (is_watched_) add_point(instruction);
        continue;
      }
      try {
        live_.allocate(instruction.index);
      } catch (const OutOfMemory& error) {
        FailedLayout failed{.memory = step_memory(allocator_->statistics()), .context = {}};
        if (!is_brief_) failed.context = describe_out_of_memory(program_, live_, routine, i, error.failure(), step_);
        throw failed;
      }
      const Block& block = live_.block(instruction.index);
      by_category_[category_of(instruction)] += block.size;
      if (!is_brief_) touched_.emplace_back(block.address, block.size);
      if (is_watched_) watch_allocation(routine, i);
      if (traces()) trace_->actions.push_back(action_of(instruction));
    }
  }

  bool traces() const { return is_watched_ && trace_ != nullptr; }

  /// Of a buffer that is live.
  MemoryAction action_of(const Instruction& instruction) const {
    if (instruction.kind == Instruction::Kind::run)
      return {.kind = MemoryAction::Kind::run, .index = instruction.index, .phase = instruction.phase};
    const Block& block = live_.block(instruction.index);
    return {.kind = instruction.kind == Instruction::Kind::allocate ? MemoryAction::Kind::allocate
                                                                    : MemoryAction::Kind::release,
            .index = instruction.index,
            .phase = instruction.phase,
            .address = reinterpret_cast<std::uint64_t>(block.address),
            .num_bytes = block.size};
  }

  void begin_trace() {
    trace_->step = step_;
    trace_->evaluation = evaluation_;
    trace_->before = traced_.held_segments();
    const auto first_block = static_cast<std::ptrdiff_t>(trace_->before.size());
    for (std::size_t b = 0; b < program_.buffers.size(); ++b)
      if (const auto buffer = static_cast<BufferId>(b); live_.is_live(buffer))
        trace_->before.push_back(
            action_of({.kind = Instruction::Kind::allocate, .index = buffer, .phase = Phase::load}));
    std::sort(trace_->before.begin() + first_block, trace_->before.end(),
              [](const MemoryAction& a, const MemoryAction& b) { return a.address < b.address; });
    traced_.trace(&trace_->actions);
  }

  /// What a layout did to segments has happened; its buffers are placed anew.
  void undo_layout(std::size_t num_actions) {
    std::vector<MemoryAction>& actions = trace_->actions;
    const auto is_undone = [](const MemoryAction& action) { return action.index >= 0; };
    actions.erase(std::remove_if(actions.begin() + static_cast<std::ptrdiff_t>(num_actions), actions.end(), is_undone),
                  actions.end());
  }

  std::size_t category_of(const Instruction& instruction) const {
    return static_cast<std::size_t>(program_.buffers[instruction.index].category);
  }

  void add_point(const Instruction& instruction) {
    plan_.peak.timeline.push_back(
        {instruction.phase, instruction.layer, allocator_->statistics().allocated_bytes.all.current, by_category_});
  }

  void watch_allocation(const Routine& routine, std::size_t i) {
    const Instruction& instruction = routine.instructions[i];
    add_point(instruction);
    PlanPeak& peak = plan_.peak;
    std::int64_t& highest = peak.category_peaks[category_of(instruction)];
    highest = std::max(highest, by_category_[category_of(instruction)]);
    if (allocator_->statistics().allocated_bytes.all.current != watched_.allocated || peak.allocated > 0) return;
    peak.allocated = watched_.allocated;
    peak.step = step_;
    peak.evaluation = evaluation_;
    peak.phase = instruction.phase;
    peak.layer = program_.layer_label(instruction.layer);
    peak.op = op_served_by(program_, routine, i);
    peak.routine = routine.name;
    peak.live = describe_live_memory(program_, live_);
    peak.uses = describe_uses(program_, live_, routine, i);
  }

  [[noreturn]] void fail(FailedLayout& failed) {
    const StepMemory memory = highest_of(failed.memory, other_peaks_);
    note_peaks(memory);
    // The failing step counts as one that reached what it reached, so that the second walk stops in it.
    if (memory.peak_allocated > peak_place_.allocated)
      peak_place_ = {.allocated = memory.peak_allocated, .step = step_, .evaluation = evaluation_};
    plan_.fits = false;
    if (is_brief_) throw Stopped{};
    plan_.failure = std::move(failed.context);
    plan_.failure->planned = true;
    plan_.failure_in_evaluation = evaluation_;
    throw Stopped{};
  }

  const Program& program_;
  const RunSchedule* schedule_;
  TransientPlaces& places_;
  SimulatedSource memory_;
  TracedSource traced_;
  TouchedPages source_;
  std::unique_ptr<Allocator> allocator_;
  LiveBuffers live_;
  MemoryPlan plan_;
  PeakPlace peak_place_, watched_;
  CategoryBytes by_category_{};  ///< of what is live
  StepMemory other_peaks_;       ///< of this step, that the allocator's counters do not tell
  std::vector<std::pair<const void*, std::int64_t>> touched_;  ///< blocks of the layout that is walked
  std::int64_t step_ = 0, skipped_retries_ = 0;
  bool evaluation_ = false, is_watched_ = false, is_brief_ = false;
  MemoryTrace* trace_ = nullptr;
};

/// The timeline of the step in which the plan failed: the same walk, watched.
std::vector<TimelinePoint> timeline_until_failure(const Program& program, const RunSchedule* schedule,
                                                  const MemoryPlan& plan, const CachingAllocatorOptions& options,
                                                  TransientPlaces& places) {
  Simulation simulation(program, schedule, plan.capacity, options, places);
  simulation.watch({.allocated = 0, .step = plan.failure->step, .evaluation = plan.failure_in_evaluation});
  simulation.run();
  return std::move(simulation.plan().peak.timeline);
}

/// See describe_refused_segment; `plan` is that of a capacity which suffices.
OutOfMemoryContext refused_segment(const MemoryPlan& plan, AllocationFailure failure) {
  failure.requested = plan.peak_requested;
  failure.rounded = plan.peak_allocated;
  OutOfMemoryContext context;
  context.failure = failure;
  context.step = plan.peak.step;
  context.phase = plan.peak.phase;
  context.layer = plan.peak.layer;
  context.op = plan.peak.op;
  context.buffer = "planned segment";
  context.refused_peak = plan.peak.allocated;
  context.live = plan.peak.live;
  context.timeline = plan.peak.timeline;
  return context;
}

/// Of a run, or, without a schedule, of writing a text or predicting.
MemoryPlan make_plan(const Program& program, const RunSchedule* schedule, std::int64_t capacity,
                     const CachingAllocatorOptions& options) {
  TransientPlaces places(program);
  Simulation simulation(program, schedule, capacity, options, places);
  simulation.run();
  MemoryPlan plan = std::move(simulation.plan());
  if (program.placement && !plan.fits && capacity < unlimited_capacity) {
    MemoryPlan sufficient = make_plan(program, schedule, unlimited_capacity, options);
    if (sufficient.fits) {
      sufficient.fits = false;
      sufficient.capacity = capacity;
      sufficient.failure = refused_segment(sufficient, plan.failure->failure);
      sufficient.failure->planned = true;
      sufficient.failure_in_evaluation = sufficient.peak.evaluation;
      return sufficient;
    }
  }

  Simulation closer(program, schedule, capacity, options, places);
  closer.watch(simulation.peak_place());
  closer.run();
  plan.peak = std::move(closer.plan().peak);
  if (plan.failure) plan.failure->timeline = timeline_until_failure(program, schedule, plan, options, places);
  return plan;
}

}  // namespace

MemoryPlan make_memory_plan(const Program& program, const RunSchedule& schedule, std::int64_t capacity,
                            const CachingAllocatorOptions& options) {
  return make_plan(program, &schedule, capacity, options);
}

MemoryTrace trace_peak(const Program& program, const RunSchedule& schedule, const MemoryPlan& plan,
                       const CachingAllocatorOptions& options) {
  require_internal(plan.fits, "what does not fit has no whole step");
  TransientPlaces places(program);
  Simulation simulation(program, &schedule, plan.capacity, options, places);
  MemoryTrace trace;
  simulation.trace(trace);
  simulation.watch({.allocated = plan.peak.allocated, .step = plan.peak.step, .evaluation = plan.peak.evaluation});
  simulation.run();
  return trace;
}

MemoryTrace trace_failure(const Program& program, const RunSchedule& schedule, const MemoryPlan& plan,
                          const CachingAllocatorOptions& options) {
  require_internal(plan.failure && !program.placement, "a failed plan of blocks has a step that failed");
  TransientPlaces places(program);
  Simulation simulation(program, &schedule, plan.capacity, options, places);
  MemoryTrace trace;
  simulation.trace(trace);
  simulation.watch({.allocated = 0, .step = plan.failure->step, .evaluation = plan.failure_in_evaluation});
  simulation.run();
  return trace;
}

MemoryPlan make_text_plan(const Program& program, std::int64_t capacity, const CachingAllocatorOptions& options) {
  return make_plan(program, nullptr, capacity, options);
}

MemoryPlan make_prediction_plan(const Program& program, std::int64_t capacity, const CachingAllocatorOptions& options) {
  return make_plan(program, nullptr, capacity, options);
}

PlannedPeak plan_peak(const Program& program, const RunSchedule& schedule, std::int64_t capacity,
                      const CachingAllocatorOptions& options) {
  TransientPlaces places(program);
  Simulation simulation(program, &schedule, capacity, options, places);
  simulation.be_brief();
  simulation.run();
  const MemoryPlan& plan = simulation.plan();
  return {plan.fits, plan.peak_reserved, plan.first_placed_step};
}

OutOfMemoryContext describe_refused_segment(const Program& program, const RunSchedule& schedule,
                                            const AllocationFailure& failure) {
  return refused_segment(make_memory_plan(program, schedule, unlimited_capacity), failure);
}

std::int64_t MemoryPlan::num_occurrences(const PlannedSteps& entry) const {
  if (cycle_num_steps == 0) return entry.count;
  const std::int64_t num_repetitions = (cycle_end - cycle_first_step) / cycle_num_steps - 1;
  const std::int64_t begin = std::max(entry.first_step, cycle_first_step);
  const std::int64_t end = std::min(entry.first_step + entry.count, cycle_first_step + cycle_num_steps);
  return entry.count + num_repetitions * std::max<std::int64_t>(end - begin, 0);
}

const StepMemory* MemoryPlan::find(std::int64_t step, bool evaluation) const {
  if (cycle_num_steps > 0 && step >= cycle_first_step + cycle_num_steps && step < cycle_end)
    step = cycle_first_step + (step - cycle_first_step) % cycle_num_steps;
  for (const PlannedSteps& entry : steps) {
    if (entry.evaluation == evaluation && step >= entry.first_step && step < entry.first_step + entry.count)
      return &entry.memory;
  }
  return nullptr;
}

}  // namespace trainer
