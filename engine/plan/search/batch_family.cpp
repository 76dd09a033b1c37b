#include "engine/plan/search/batch_family.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/memory/rounding.h"
#include "engine/memory/simulated_source.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/search/kept_choice.h"
#include "engine/plan/search/run_fits.h"
#include "engine/plan/search/sized_program.h"
#include "engine/program/compile.h"

namespace trainer {
namespace {

using SizedKind = SizedProgram::Instruction::Kind;

/// A step that has not settled by then is left to the plan.
constexpr std::int64_t most_steps = 16;
/// Instructions that are walked in the time in which one is compiled.
constexpr std::int64_t walked_per_compiled = 16;

class SizedFamily final : public BatchFamily {
 public:
  SizedFamily(SizedProgram program, std::optional<KeptChoice> choice, const DeviceModel& device, std::int64_t low,
              std::int64_t high, std::int64_t work)
      : program_(std::move(program)),
        choice_(std::move(choice)),
        device_(device),
        low_(low),
        high_(high),
        work_(work),
        bytes_(program_.buffers().size()),
        blocks_(program_.buffers().size()) {}

  bool may_fit(const Candidate& candidate, std::int64_t capacity) override {
    const RunSchedule schedule(candidate.experiment, candidate.data);
    const std::int64_t batch_size = schedule.own_batch_size();
    if (batch_size < low_ || batch_size > high_ || schedule.total_steps() < 1) return true;
    for (std::size_t b = 0; b < bytes_.size(); ++b) bytes_[b] = program_.buffers()[b].at(batch_size);
    const bool expands = candidate.experiment.memory.expandable_segments &&
                         candidate.experiment.memory.allocator == AllocatorKind::caching;
    const std::int64_t usable = usable_capacity(candidate.experiment, capacity);
    if (most_live_bytes(schedule, nothing) <= usable) {
      try {
        if (fits_with_scratch(schedule, batch_size, usable)) {
          // All others have places, or may have them, which are only found for the whole program.
          if (!expands) return true;
          if (walk_fits(schedule, program_.workspaces(device_, batch_size), capacity,
                        allocator_options(candidate.experiment)))
            return true;
        }
      } catch (const DeviceError&) {
        return true;
      }
    }
    if (choice_ && !choice_->is_alike_throughout()) num_walked_ += choice_->num_nodes();
    return (choice_ && !choice_->is_alike(batch_size)) || !program_.has_statistics_alike(device_, batch_size);
  }

  std::int64_t work() const override { return work_ + num_walked_ / walked_per_compiled; }

 private:
  const std::vector<SizedProgram::Instruction>& part(SizedProgram::Part part) {
    num_walked_ += static_cast<std::int64_t>(program_.part(part).size());
    return program_.part(part);
  }

  /// Micro-batches before the odd one.
  static std::int64_t num_whole(const RunSchedule::Step& step) {
    return step.num_micro_batches - (step.last_is_odd ? 1 : 0);
  }

  static std::int64_t nothing(std::int32_t /*op*/, std::int64_t /*live*/) { return 0; }

  /// Asks the device only about scratch that its bound does not settle.
  bool fits_with_scratch(const RunSchedule& schedule, std::int64_t batch_size, std::int64_t usable) {
    const std::vector<std::int64_t>& most_workspaces = program_.most_workspaces(device_, batch_size);
    const auto scratch_of = [&](std::int32_t op, std::int64_t live) -> std::int64_t {
      const std::int64_t most = most_workspaces[op];
      if (most == 0) return 0;
      const bool is_settled = most != unknown_workspace_bytes && live + round_to_blocks(most) <= usable;
      return is_settled ? 0 : program_.workspace(device_, op);
    };
    return most_live_bytes(schedule, scratch_of) <= usable;
  }

  /// The most blocks that the first micro-batches hold at once; `scratch_of(op, live)` tells what an op takes beside
  /// what is live.
  template <typename ScratchOf>
  std::int64_t most_live_bytes(const RunSchedule& schedule, ScratchOf&& scratch_of) {
    std::int64_t live = 0, most = 0;
    const auto walk = [&](SizedProgram::Part which) {
      for (const SizedProgram::Instruction& instruction : part(which)) {
        if (instruction.kind == SizedKind::run) {
          const std::int64_t scratch = scratch_of(instruction.index, live);
          if (scratch > 0) most = std::max(most, live + round_to_blocks(scratch));
          continue;
        }
        const std::int64_t bytes = round_to_blocks(bytes_[instruction.index]);
        live += instruction.kind == SizedKind::allocate ? bytes : -bytes;
        most = std::max(most, live);
      }
    };
    walk(SizedProgram::load);
    if (num_whole(schedule.step(1)) > 0) walk(SizedProgram::first);
    if (num_whole(schedule.step(1)) > 1) walk(SizedProgram::next);
    return most;
  }

  bool walk_fits(const RunSchedule& schedule, const std::vector<std::int64_t>& workspaces, std::int64_t capacity,
                 const CachingAllocatorOptions& options) {
    SimulatedSource source(capacity);
    CachingAllocator allocator(source, options);
    const auto walk = [&](SizedProgram::Part which) {
      for (const SizedProgram::Instruction& instruction : part(which)) {
        if (instruction.kind == SizedKind::allocate) {
          blocks_[instruction.index] = allocator.allocate(bytes_[instruction.index]);
        } else if (instruction.kind == SizedKind::release) {
          allocator.free(blocks_[instruction.index]);
        } else if (const std::int64_t workspace = workspaces[instruction.index]; workspace > 0) {
          allocator.free(allocator.allocate(workspace));
        }
      }
    };
    try {
      allocator.begin_layout();
      walk(SizedProgram::load);
      const std::int64_t num_steps = std::min(schedule.total_steps(), most_steps);
      for (std::int64_t number = 1; number <= num_steps; ++number) {
        const RunSchedule::Step step = schedule.step(number);
        if (num_whole(step) == 0) break;
        const std::uint64_t before = allocator.fingerprint();
        allocator.begin_layout();
        walk(SizedProgram::first);
        for (std::int64_t m = 1; m < num_whole(step); ++m) walk(SizedProgram::next);
        if (step.last_is_odd) break;
        walk(SizedProgram::update);
        if (step.evaluates || allocator.fingerprint() == before) break;
      }
    } catch (const OutOfMemory&) {
      return false;
    }
    return true;
  }

  SizedProgram program_;
  std::optional<KeptChoice> choice_;
  const DeviceModel& device_;
  const std::int64_t low_, high_;
  const std::int64_t work_;
  std::int64_t num_walked_ = 0;
  std::vector<std::int64_t> bytes_;  ///< by buffer, of the batch size at hand
  std::vector<Block> blocks_;
};

/// As far as a family needs it: places are not looked for.
Program begin_program(const Candidate& candidate, const DeviceModel& device) {
  Experiment experiment = candidate.experiment;
  experiment.memory.allocator = AllocatorKind::caching;
  return compile(experiment, candidate.data, device);
}

}  // namespace

bool searches_program(const Experiment& experiment) {
  using Type = CheckpointingConfig::Type;
  const Type type = experiment.train.checkpointing.type;
  return type == Type::budget || type == Type::automatic || experiment.train.batch_size.is_automatic();
}

std::unique_ptr<BatchFamily> BatchFamily::make(const Candidate& low, const Candidate& high, const DeviceModel& device) {
  if (searches_program(low.experiment) || searches_program(high.experiment)) return nullptr;
  // Parts and micro-batches have sizes of their own.
  if (low.experiment.parallel.deterministic || is_pipelined(low.experiment.parallel)) return nullptr;
  try {
    const Program at_low = begin_program(low, device), at_high = begin_program(high, device);
    std::optional<SizedProgram> program = SizedProgram::make(at_low, at_high);
    if (!program) return nullptr;
    std::optional<KeptChoice> choice;
    if (high.experiment.memory.recompute_cheap && !(choice = KeptChoice::make(low, high, device))) return nullptr;
    return std::make_unique<SizedFamily>(
        std::move(*program), std::move(choice), device, at_low.micro_batches.front().batch_size,
        at_high.micro_batches.front().batch_size, 2 * (num_instructions_of(at_low) + num_instructions_of(at_high)));
  } catch (const ConfigError&) {
  } catch (const DeviceError&) {
  }
  return nullptr;
}

}  // namespace trainer
