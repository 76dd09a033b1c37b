#include "engine/program/pipeline/pipeline_steps.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/program/rank_sums.h"

namespace trainer {
namespace {

/// A list of segments of one micro-batch, and where they stand among the program's routines.
struct SlotSegments {
  std::vector<Scheduler::Segment> segments;  ///< without their routines
  std::size_t first_routine = 0;
};

Scheduler::Segment::Kind kind_of(const PipelineEntry& entry) {
  using SegmentKind = Scheduler::Segment::Kind;
  if (entry.kind == PipelineEntry::Kind::exchange) return SegmentKind::exchange;
  if (entry.kind == PipelineEntry::Kind::finish) return SegmentKind::finish;
  switch (entry.item.kind) {
    case PipelineItem::Kind::forward:
      return SegmentKind::forward;
    case PipelineItem::Kind::backward:
      return SegmentKind::backward;
    case PipelineItem::Kind::weight_gradients:
      break;
  }
  return SegmentKind::weight_gradients;
}

bool is_of(const Scheduler::Segment& segment, const PipelineEntry& entry) {
  if (segment.kind != kind_of(entry)) return false;
  if (!segment.exchanges()) return segment.place == entry.item.chunk;
  return segment.place == entry.message && segment.is_gradient == entry.is_gradient;
}

/// By micro-batch, a slot that no other has from its first entry to its last.
std::vector<std::int32_t> slots_of(const std::vector<PipelineEntry>& entries, std::size_t num_micro_batches) {
  std::vector<std::size_t> last(num_micro_batches, 0);
  for (std::size_t i = 0; i < entries.size(); ++i) last[static_cast<std::size_t>(entries[i].micro_batch)] = i;
  std::vector<std::int32_t> slots(num_micro_batches, -1);
  std::vector<std::size_t> taken_until;  // by slot: an entry; free behind it
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::int32_t& slot = slots[static_cast<std::size_t>(entries[i].micro_batch)];
    if (slot >= 0) continue;
    const auto free = std::find_if(taken_until.begin(), taken_until.end(), [&](std::size_t end) { return end < i; });
    slot = static_cast<std::int32_t>(free - taken_until.begin());
    if (free == taken_until.end()) taken_until.emplace_back();
    taken_until[static_cast<std::size_t>(slot)] = last[static_cast<std::size_t>(entries[i].micro_batch)];
  }
  return slots;
}

/// Schedules what steps need, once.
class PipelineRoutines {
 public:
  PipelineRoutines(Program& program, Scheduler& scheduler, const StageCut& cut, bool starts,
                   const std::function<StageNodes(std::int64_t)>& graph_of)
      : program_(program), scheduler_(scheduler), cut_(cut), starts_(starts), graph_of_(graph_of) {}

  const SlotSegments& of(std::int64_t num_samples, std::int32_t slot, bool is_first) {
    const auto [known, is_new] = all_.try_emplace({num_samples, slot, is_first});
    if (is_new) schedule(graph(num_samples), is_first, known->second);
    return known->second;
  }

 private:
  const StageNodes& graph(std::int64_t num_samples) {
    const auto known = graphs_.find(num_samples);
    return known != graphs_.end() ? known->second : graphs_.emplace(num_samples, graph_of_(num_samples)).first->second;
  }

  void schedule(const StageNodes& nodes, bool is_first, SlotSegments& slot) {
    const Scheduler::SegmentOptions options{.chunk_of = [this](LayerId layer) { return cut_.chunk_of(layer); },
                                            .num_deferred = nodes.num_deferred,
                                            .starts = starts_};
    slot.segments = scheduler_.schedule_segments(nodes.graph, {.adds = !is_first, .starts_statistics = is_first},
                                                 is_first ? "train" : "train, accumulating", options);
    slot.first_routine = program_.pipeline->routines.size();
    for (Scheduler::Segment& segment : slot.segments)
      program_.pipeline->routines.push_back(std::exchange(segment.routine, {}));
  }

  Program& program_;
  Scheduler& scheduler_;
  const StageCut& cut_;
  const bool starts_;
  const std::function<StageNodes(std::int64_t)>& graph_of_;
  std::map<std::int64_t, StageNodes> graphs_;  ///< by samples
  std::map<std::tuple<std::int64_t, std::int32_t, bool>, SlotSegments> all_;
};

/// The kinds of steps that a run has.
std::vector<RunSchedule::Step> kinds_of_steps(const RunSchedule& schedule) {
  std::vector<RunSchedule::Step> kinds = {schedule.step(1)};
  const auto add = [&](std::int64_t number) {
    const RunSchedule::Step step = schedule.step(number);
    const bool is_known = std::any_of(kinds.begin(), kinds.end(), [&](const RunSchedule::Step& known) {
      return known.num_micro_batches == step.num_micro_batches && known.last_is_odd == step.last_is_odd;
    });
    if (!is_known) kinds.push_back(step);
  };
  add(schedule.steps_per_epoch());  // as all last ones of an epoch
  return kinds;
}

/// Segments stand behind all that they depend on: what one reads or writes is there. The host's data comes before
/// anything of its segment runs, so its memory is not what the segment has used before.
void require_consistent(const Program& program, const PipelineSteps::Step& step) {
  std::vector<char> is_live = persistent_buffers(program);
  const auto is_there = [&](BufferId buffer) {
    if (program.buffers[buffer].view_of >= 0) buffer = program.buffers[buffer].view_of;
    return is_live[buffer] != 0;
  };
  for (const PipelineSteps::Entry& entry : step.entries) {
    const Routine& routine = program.pipeline->routines[static_cast<std::size_t>(entry.routine)];
    bool has_released = false;
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Instruction::Kind::run) {
        const OpCall& call = program.calls[instruction.index];
        require_internal(std::all_of(call.inputs.begin(), call.inputs.end(), is_there) &&
                             std::all_of(call.outputs.begin(), call.outputs.end(), is_there),
                         "what a segment of a pipeline reads is there");
        continue;
      }
      char& is_here = is_live[instruction.index];
      const bool allocates = instruction.kind == Instruction::Kind::allocate;
      require_internal((is_here == 0) == allocates, "a segment of a pipeline finds memory as it was scheduled");
      is_here = allocates ? 1 : 0;
      has_released = has_released || !allocates;
      const bool is_field =
          std::find(routine.fields.begin(), routine.fields.end(), instruction.index) != routine.fields.end();
      require_internal(!is_field || !allocates || !has_released, "a batch has memory that nothing else had");
    }
  }
}

}  // namespace

void add_pipeline_steps(Program& program, Scheduler& scheduler, const RunSchedule& schedule, const PipelineShape& shape,
                        const StageCut& cut, const std::vector<StageMessage>& messages, bool starts,
                        const std::function<StageNodes(std::int64_t)>& graph_of) {
  program.pipeline.emplace();
  PipelineRoutines routines(program, scheduler, cut, starts, graph_of);
  std::int32_t empty_step = -1;  // what a rank without samples does
  for (const RunSchedule::Step& kind : kinds_of_steps(schedule)) {
    PipelineSteps::Step step{.num_batches = kind.num_micro_batches, .last_is_odd = kind.last_is_odd, .entries = {}};
    std::vector<std::int32_t> passes;  // by micro-batch of the step, of those that have samples
    for (std::int64_t pass = 0; pass < schedule.num_passes(kind); ++pass)
      if (schedule.own_of_pass(kind, pass).count > 0) passes.push_back(static_cast<std::int32_t>(pass));
    PipelineShape of_step = shape;
    of_step.num_micro_batches = static_cast<std::int32_t>(passes.size());
    const std::vector<PipelineEntry> entries =
        pipeline_entries(of_step, messages, static_cast<std::int32_t>(program.ranks.stage()), starts);
    const std::vector<std::int32_t> slots = slots_of(entries, passes.size());
    for (const PipelineEntry& entry : entries) {
      const auto micro_batch = static_cast<std::size_t>(entry.micro_batch);
      const std::int32_t pass = passes[micro_batch];
      const SlotSegments& slot =
          routines.of(schedule.own_of_pass(kind, pass).count, slots[micro_batch], entry.micro_batch == 0);
      for (std::size_t i = 0; i < slot.segments.size(); ++i)
        if (is_of(slot.segments[i], entry))
          step.entries.push_back({static_cast<std::int32_t>(slot.first_routine + i), pass});
    }
    if (passes.empty()) {
      if (empty_step < 0) {
        empty_step = static_cast<std::int32_t>(program.pipeline->routines.size());
        program.pipeline->routines.push_back(schedule_step_without_samples(program, scheduler));
      }
      step.entries.push_back({empty_step, 0});
    }
    require_consistent(program, step);
    program.pipeline->steps.push_back(std::move(step));
  }
}

std::string layers_of_stage(const Program& program) {
  std::string text;
  if (!program.pipeline || program.ranks.num_stages == 1) return text;
  for (const auto& [first, last] : program.pipeline->layers) {
    text += (text.empty() ? "" : ", ") + program.layers[first].path;
    if (last != first) text += " to " + program.layers[last].path;
  }
  return text;
}

const PipelineSteps::Step& pipeline_step(const Program& program, const RunSchedule::Step& step) {
  const std::vector<PipelineSteps::Step>& steps = program.pipeline->steps;
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const PipelineSteps::Step& known) {
    return known.num_batches == step.num_micro_batches && known.last_is_odd == step.last_is_odd;
  });
  require_internal(found != steps.end(), "a pipeline knows all steps of a run");
  return *found;
}

}  // namespace trainer
