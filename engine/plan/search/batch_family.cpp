#include "engine/plan/search/batch_family.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/memory/rounding.h"
#include "engine/memory/simulated_source.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/search/run_fits.h"
#include "engine/plan/search/sized_program.h"
#include "engine/program/compile.h"
#include "engine/program/recompute/recompute.h"

namespace trainer {
namespace {

using SizedKind = SizedProgram::Instruction::Kind;

/// A step that has not settled by then is left to the plan.
constexpr std::int64_t most_steps = 16;
/// Instructions that are walked in the time in which one is compiled.
constexpr std::int64_t walked_per_compiled = 16;

/// The choice of what is cheap to compute again, by batch size.
class KeptChoice {
 public:
  /// Nothing where a value is not linear in the batch size, or the choices at the two ends differ.
  static std::optional<KeptChoice> make(const Candidate& low, const Candidate& high, const DeviceModel& device) {
    KeptChoice choice;
    choice.checkpointing_ = high.experiment.train.checkpointing;
    choice.cheap_ = high.experiment.memory.recompute_cheap;
    choice.in_place_ = high.experiment.memory.in_place;
    TrainingGraph at_low = make_training_graph(low.experiment, low.data, device);
    choice.graph_ = make_training_graph(high.experiment, high.data, device).graph;
    const Graph &small = at_low.graph, &large = choice.graph_;
    if (small.values.size() != large.values.size() || small.nodes.size() != large.nodes.size()) return std::nullopt;
    for (std::size_t v = 0; v < large.values.size(); ++v) {
      const std::optional<SizedBytes> bytes =
          sized_bytes(small.values[v].type, small.batch_size, large.values[v].type, large.batch_size);
      if (!bytes) return std::nullopt;
      choice.bytes_.push_back(*bytes);
    }
    choice.problem_ = make_recompute_problem(choice.graph_, device, choice.options());
    for (const RecomputeProblem::Value& value : choice.problem_.values) choice.is_used_.push_back(value.num_bytes > 0);
    choice.kept_ = choice.kept_at(large.batch_size);
    if (choice.kept_at(small.batch_size) != choice.kept_) return std::nullopt;
    return choice;
  }

  bool is_alike(std::int64_t batch_size) { return kept_at(batch_size) == kept_; }
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(graph_.nodes.size()); }

 private:
  RecomputeOptions options() const {
    return {.checkpointing = &checkpointing_, .cheap = cheap_, .in_place = in_place_};
  }

  std::vector<bool> kept_at(std::int64_t batch_size) {
    for (std::size_t v = 0; v < bytes_.size(); ++v)
      if (is_used_[v]) problem_.values[v].num_bytes = round_to_blocks(bytes_[v].at(batch_size));
    return kept_values(problem_, graph_, options());
  }

  CheckpointingConfig checkpointing_;
  bool cheap_ = true, in_place_ = true;
  Graph graph_;  ///< of the high batch size
  RecomputeProblem problem_;
  std::vector<SizedBytes> bytes_;  ///< by value
  std::vector<bool> is_used_, kept_;
};

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
    const std::int64_t batch_size = schedule.batch_size();
    if (batch_size < low_ || batch_size > high_ || schedule.total_steps() < 1) return true;
    for (std::size_t b = 0; b < bytes_.size(); ++b) bytes_[b] = program_.buffers()[b].at(batch_size);
    const bool expands = candidate.experiment.memory.expandable_segments &&
                         candidate.experiment.memory.allocator == AllocatorKind::caching;
    const std::int64_t usable = usable_capacity(candidate.experiment, capacity);
    if (most_live_bytes(schedule, nullptr) <= usable) {
      try {
        const std::vector<std::int64_t>& workspaces = program_.workspaces(device_, batch_size);
        if (most_live_bytes(schedule, &workspaces) <= usable) {
          // All others have places, or may have them, which are only found for the whole program.
          if (!expands) return true;
          if (walk_fits(schedule, workspaces, capacity, allocator_options(candidate.experiment))) return true;
        }
      } catch (const DeviceError&) {
        return true;
      }
    }
    if (choice_) num_walked_ += choice_->num_nodes();
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

  /// The most blocks that the first micro-batches hold at once, scratch by instruction included where it is given.
  std::int64_t most_live_bytes(const RunSchedule& schedule, const std::vector<std::int64_t>* workspaces) {
    std::int64_t live = 0, most = 0;
    const auto walk = [&](SizedProgram::Part which) {
      for (const SizedProgram::Instruction& instruction : part(which)) {
        if (instruction.kind == SizedKind::run) {
          const std::int64_t scratch = workspaces != nullptr ? (*workspaces)[instruction.index] : 0;
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
                 CachingAllocatorOptions options) {
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

/// Whether another budget or capacity may make another program.
bool searches(const Experiment& experiment) {
  using Type = CheckpointingConfig::Type;
  const Type type = experiment.train.checkpointing.type;
  return type == Type::budget || type == Type::automatic || experiment.train.batch_size.is_automatic();
}

/// As far as a family needs it: places are not looked for.
Program begin_program(const Candidate& candidate, const DeviceModel& device) {
  Experiment experiment = candidate.experiment;
  experiment.memory.allocator = AllocatorKind::caching;
  return compile(experiment, candidate.data, device);
}

}  // namespace

std::unique_ptr<BatchFamily> BatchFamily::make(const Candidate& low, const Candidate& high, const DeviceModel& device) {
  if (searches(low.experiment) || searches(high.experiment)) return nullptr;
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
