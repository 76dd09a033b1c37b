#include "engine/program/lent_places.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/device/most_scratch.h"
#include "engine/errors.h"
#include "engine/memory/rounding.h"
#include "engine/program/compile.h"
#include "engine/program/placement.h"
#include "engine/program/routine_walk.h"
#include "engine/program/run_schedule.h"
#include "engine/program/window_packing.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;
using Ops = std::unordered_set<Op, OpHash>;

/// By buffer, whether it is an op's scratch, and not of one that is started.
std::vector<char> scratch_buffers(const Program& program) {
  std::vector<char> is_scratch(program.buffers.size(), 0);
  for (const OpCall& call : program.calls)
    if (call.workspace >= 0 && !is_started(call.op)) is_scratch[call.workspace] = 1;
  return is_scratch;
}

/// What a program holds at its highest moment, as far as it stands when whole batches are scheduled.
struct HighestMoment {
  std::int64_t without_scratch = 0, with_scratch = 0;
};

/// Blocks that the routines of whole batches hold. `visit(call, live)` is called for each call with scratch, and what
/// is live beside it.
template <typename Visit>
HighestMoment highest_moment(const Program& program, Visit&& visit) {
  const std::vector<char> is_scratch = scratch_buffers(program);
  HighestMoment highest;
  std::int64_t live = 0;
  const auto walk = [&](const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Kind::run) {
        const OpCall& call = program.calls[instruction.index];
        if (call.workspace < 0 || is_started(call.op)) continue;
        highest.with_scratch =
            std::max(highest.with_scratch, live + round_to_blocks(program.buffers[call.workspace].num_bytes));
        visit(call, live);
        continue;
      }
      if (is_scratch[instruction.index] != 0) continue;
      const std::int64_t bytes = round_to_blocks(program.buffers[instruction.index].num_bytes);
      live += instruction.kind == Kind::allocate ? bytes : -bytes;
      highest.without_scratch = std::max(highest.without_scratch, live);
    }
  };
  walk(program.load);
  walk(program.micro_batches.front().first);
  walk(program.micro_batches.front().next);
  highest.with_scratch = std::max(highest.with_scratch, highest.without_scratch);
  return highest;
}

/// Finds for each buffer of a program the one of a larger program that stands for it.
class PlaceLender {
 public:
  PlaceLender(const Program& program, const Program& larger, std::int64_t capacity)
      : program_(program),
        larger_(larger),
        capacity_(capacity),
        is_scratch_(scratch_buffers(program)),
        is_larger_scratch_(scratch_buffers(larger)),
        lender_(program.buffers.size(), -1) {}

  std::optional<Placement> lend() {
    if (!match(program_.load, larger_.load) || !match(program_.refresh, larger_.refresh) ||
        !match(program_.update, larger_.update) || !match(program_.agree_evaluation, larger_.agree_evaluation))
      return std::nullopt;
    // Of the same batch size each routine has its own counterpart.
    const bool is_own = larger_.micro_batches.front().batch_size == program_.micro_batches.front().batch_size;
    for (std::size_t i = 0; i < program_.micro_batches.size(); ++i) {
      const Program::MicroBatch &micro_batch = program_.micro_batches[i],
                                &of_larger = larger_.micro_batches[is_own ? i : 0];
      if (!match(micro_batch.first, of_larger.first) || !match(micro_batch.next, of_larger.next)) return std::nullopt;
    }
    for (std::size_t i = 0; i < program_.evaluations.size(); ++i)
      if (larger_.evaluations.empty() || !match(program_.evaluations[i], larger_.evaluations[is_own ? i : 0]))
        return std::nullopt;
    Placement placement{.offsets = std::vector<std::int64_t>(program_.buffers.size(), 0),
                        .segment_bytes = larger_.placement->segment_bytes};
    std::int64_t behind = 0;
    for (std::size_t b = 0; b < lender_.size(); ++b) {
      const std::int64_t bytes = round_to_blocks(program_.buffers[b].num_bytes);
      if (lender_[b] >= 0 && round_to_blocks(larger_.buffers[lender_[b]].num_bytes) >= bytes) {
        placement.offsets[b] = larger_.placement->offsets[lender_[b]];
      } else if (is_scratch_[b] != 0) {
        placement.offsets[b] = larger_.placement->segment_bytes;
        behind = std::max(behind, bytes);
      } else if (lender_[b] >= 0) {
        return std::nullopt;
      }
    }
    placement.segment_bytes += behind;
    if (placement.segment_bytes > capacity_ || overlaps(placement)) return std::nullopt;
    return placement;
  }

 private:
  /// The next instruction of `routine` from i on that is not about scratch.
  static std::size_t next_of(const Routine& routine, const std::vector<char>& is_scratch, std::size_t i) {
    while (i < routine.instructions.size() && routine.instructions[i].kind != Kind::run &&
           is_scratch[routine.instructions[i].index] != 0)
      ++i;
    return i;
  }

  bool stands_for(BufferId buffer, BufferId of_larger) {
    BufferId& lender = lender_[buffer];
    if (lender < 0) lender = of_larger;
    return lender == of_larger;
  }

  bool match(const Routine& routine, const Routine& of_larger) {
    for (std::size_t i = 0, j = 0;; ++i, ++j) {
      i = next_of(routine, is_scratch_, i);
      j = next_of(of_larger, is_larger_scratch_, j);
      const bool ends = i == routine.instructions.size();
      if (ends != (j == of_larger.instructions.size())) return false;
      if (ends) return true;
      const Instruction &a = routine.instructions[i], &b = of_larger.instructions[j];
      if (a.kind != b.kind) return false;
      if (a.kind == Kind::run ? !match(program_.calls[a.index], larger_.calls[b.index]) : !stands_for(a.index, b.index))
        return false;
    }
  }

  bool match(const OpCall& call, const OpCall& of_larger) {
    const auto are_alike = [&](const std::vector<BufferId>& a, const std::vector<BufferId>& b) {
      if (a.size() != b.size()) return false;
      for (std::size_t k = 0; k < a.size(); ++k)
        if (!stands_for(a[k], b[k])) return false;
      return true;
    };
    if (call.op.kind != of_larger.op.kind || call.op.attributes != of_larger.op.attributes) return false;
    if (!are_alike(call.inputs, of_larger.inputs) || !are_alike(call.outputs, of_larger.outputs)) return false;
    return call.workspace < 0 || of_larger.workspace < 0 || stands_for(call.workspace, of_larger.workspace);
  }

  /// Whether two buffers that live at one time do so in one place: never, if the two programs are alike.
  bool overlaps(const Placement& placement) const {
    const BufferLifetimes lifetimes = find_lifetimes(program_);
    for (std::size_t i = 0; i < lifetimes.items.size(); ++i) {
      const std::int64_t begin = placement.offsets[lifetimes.buffers[i]];
      if (begin + lifetimes.items[i].num_bytes > placement.segment_bytes) return true;
      for (std::size_t j = 0; j < i; ++j) {
        const std::int64_t other = placement.offsets[lifetimes.buffers[j]];
        if (begin < other + lifetimes.items[j].num_bytes && other < begin + lifetimes.items[i].num_bytes &&
            live_together(lifetimes.items[i], lifetimes.items[j]))
          return true;
      }
    }
    return false;
  }

  const Program &program_, &larger_;
  const std::int64_t capacity_;
  const std::vector<char> is_scratch_, is_larger_scratch_;
  std::vector<BufferId> lender_;  ///< by buffer; -1: none yet
};

std::int64_t num_instructions_in(const Program& program) {
  std::size_t number = program.load.instructions.size() + program.update.instructions.size();
  for (const Program::MicroBatch& micro_batch : program.micro_batches)
    number += micro_batch.first.instructions.size() + micro_batch.next.instructions.size();
  for (const Routine& routine : program.evaluations) number += routine.instructions.size();
  return static_cast<std::int64_t>(number);
}

Experiment without_lent_places(const Experiment& experiment) {
  Experiment own = experiment;
  own.memory.places = {};
  return own;
}

}  // namespace

RoomyProgram compile_with_room(Experiment experiment, const DataDescription& data, const DeviceModel& device,
                               std::int64_t batch_size, std::int64_t capacity, bool asks,
                               std::int64_t& num_instructions) {
  experiment.train.batch_size = batch_size;
  experiment.memory.places = {};
  experiment.memory.allocator = AllocatorKind::planned;
  RoomyProgram result;
  Ops lacking;
  const auto has_room = [&](const Program& begun) {
    num_instructions += num_instructions_in(begun);
    const HighestMoment highest = highest_moment(begun, [&](const OpCall& call, std::int64_t live) {
      if (live + round_to_blocks(begun.buffers[call.workspace].num_bytes) > capacity) lacking.insert(call.op);
    });
    result.is_too_large = highest.without_scratch > capacity;
    return highest.with_scratch <= capacity;
  };
  result.program = compile_while(experiment, data, MostScratch(device), nullptr, has_room);
  if (!result.program && !result.is_too_large && asks)
    result.program = compile_while(experiment, data, MostScratch(device, Ops(lacking)), nullptr, has_room);
  if (!result.program) return result;
  num_instructions += num_instructions_in(*result.program);
  if (result.program->placement->segment_bytes > capacity) result.program.reset();
  return result;
}

std::optional<LentPlaces> find_lent_places(const Experiment& experiment, const DataDescription& data,
                                           const DeviceModel& device, std::int64_t capacity,
                                           std::int64_t& num_instructions) {
  const std::int64_t own = RunSchedule(experiment, data).batch_size();
  std::optional<Program> program;
  const auto lends = [&](const Program& larger) {
    if (!program) {
      Experiment caching = without_lent_places(experiment);  // places are what is sought
      caching.memory.allocator = AllocatorKind::caching;
      program = compile(caching, data, device);
      num_instructions += num_instructions_in(*program);
    }
    return PlaceLender(*program, larger, capacity).lend().has_value();
  };
  for (std::int64_t batch_size = own; batch_size <= std::max(own, data.num_train); ++batch_size) {
    const bool is_own = batch_size == own;
    const RoomyProgram larger =
        compile_with_room(experiment, data, device, batch_size, capacity, is_own, num_instructions);
    if (larger.program && lends(*larger.program)) return LentPlaces{.batch_size = batch_size, .capacity = capacity};
    if (larger.is_too_large) break;
  }
  return std::nullopt;
}

void place_as_lent(Program& program, const Experiment& experiment, const DataDescription& data,
                   const DeviceModel& device) {
  const LentPlaces& places = experiment.memory.places;
  std::int64_t num_instructions = 0;
  const bool is_own = places.batch_size == RunSchedule(experiment, data).batch_size();
  const RoomyProgram larger =
      compile_with_room(experiment, data, device, places.batch_size, places.capacity, is_own, num_instructions);
  std::optional<Placement> placement;
  if (larger.program) placement = PlaceLender(program, *larger.program, places.capacity).lend();
  require_internal(placement.has_value(), "a batch size lends the places that it was found to lend");
  program.placement = std::move(*placement);
}

}  // namespace trainer
