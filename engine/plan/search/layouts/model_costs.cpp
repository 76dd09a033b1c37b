#include "engine/plan/search/layouts/model_costs.h"

#include <algorithm>
#include <utility>

#include "engine/memory/rounding.h"
#include "engine/ops/finish_exchange.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/compile.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// Two micro-batches of so many samples, one behind the other, on one rank of those that share each layer.
Experiment alone_with(Experiment experiment, std::int64_t num_samples, bool splits_backward) {
  ParallelConfig alone;
  alone.tensor = experiment.parallel.tensor;
  alone.micro_batches = 2;
  alone.schedule = splits_backward ? PipelineOrder::zero_bubble : PipelineOrder::one_forward_one_backward;
  alone.overlap = experiment.parallel.overlap;
  alone.ranks_per_node = experiment.parallel.ranks_per_node;
  experiment.parallel = alone;
  experiment.train.batch_size = 2 * num_samples;
  experiment.train.accumulation_steps = 1;
  experiment.memory.update = UpdatePlace::at_end;
  experiment.memory.allocator = AllocatorKind::caching;
  experiment.memory.kept = nullptr;
  experiment.kept_from = nullptr;
  return experiment;
}

/// Of a call; nothing of what goes on beside others.
double seconds_of(const Program& program, const OpCall& call, const MachineRates& rates) {
  return is_started(call.op) ? 0 : predicted_seconds(program, call, rates);
}

/// Adds up what the calls of micro-batches take by layer, those of no layer with the last one.
void count_seconds(const Program& program, const PipelineSteps::Step& step, const MachineRates& rates,
                   std::vector<LayerCosts>& layers) {
  const std::int32_t first_pass = step.entries.front().pass;
  bool follows_backward = false;  // within a micro-batch, whose gradients of weights come behind
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    const std::int32_t pass = step.entries[i].pass;
    if (i > 0 && step.entries[i - 1].pass != pass) follows_backward = false;
    const Routine& routine = program.pipeline->routines[static_cast<std::size_t>(step.entries[i].routine)];
    bool has_backward = false;
    for_each_call(program, routine, [&](const OpCall& call) {
      LayerCosts& layer = call.layer < 0 ? layers.back() : layers[static_cast<std::size_t>(call.layer)];
      const double seconds = seconds_of(program, call, rates);
      if (call.phase == Phase::forward) {
        if (pass == first_pass) layer.forward += seconds;
        return;
      }
      has_backward = true;
      BackwardCosts& of_pass = pass == first_pass ? layer.first : layer.further;
      (follows_backward ? of_pass.weight_gradients : of_pass.backward) += seconds;
    });
    follows_backward = follows_backward || has_backward;
  }
}

/// What is still there of a micro-batch where its backward pass begins, by layer.
void count_kept(const Program& program, const PipelineSteps::Step& step, std::vector<LayerCosts>& layers) {
  const std::int32_t pass = step.entries.back().pass;
  std::vector<char> is_live(program.buffers.size(), 0);
  for (const PipelineSteps::Entry& entry : step.entries) {
    if (entry.pass != pass) continue;
    const Routine& routine = program.pipeline->routines[static_cast<std::size_t>(entry.routine)];
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.phase != Phase::forward) break;
      if (instruction.kind == Instruction::Kind::run) continue;
      is_live[static_cast<std::size_t>(instruction.index)] = instruction.kind == Instruction::Kind::allocate ? 1 : 0;
    }
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (is_live[b] == 0 || buffer.view_of >= 0) continue;
    LayerCosts& layer = buffer.layer < 0 ? layers.back() : layers[static_cast<std::size_t>(buffer.layer)];
    layer.kept_bytes += round_to_blocks(buffer.num_bytes);
  }
}

std::vector<ParameterCosts> parameter_costs(const Program& program, GradientStorage storage) {
  const auto bytes_of = [&](BufferId buffer) {
    return buffer < 0 ? 0 : program.buffers[static_cast<std::size_t>(buffer)].num_bytes;
  };
  std::vector<ParameterCosts> costs(program.parameters.size());
  for (std::size_t p = 0; p < costs.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    costs[p].weight = bytes_of(program.parameter_buffers[p]);
    costs[p].copy = bytes_of(program.copy_buffers[p]);
    costs[p].state = bytes_of(program.optimizer_buffers[p].first) + bytes_of(program.optimizer_buffers[p].second);
    if (!program.average_buffers.empty()) costs[p].state += bytes_of(program.average_buffers[p]);
    if (!parameter.trainable || !parameter.is_weight) continue;
    const std::int64_t of_number = storage == GradientStorage::half ? 2 : 4;
    costs[p].gradient =
        of_number * program.buffers[static_cast<std::size_t>(program.parameter_buffers[p])].type.num_elements();
  }
  return costs;
}

}  // namespace

ModelCosts model_costs(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                       const MachineRates& rates, std::int64_t num_samples, bool splits_backward) {
  using Type = CheckpointingConfig::Type;
  const Experiment alone = alone_with(experiment, num_samples, splits_backward);
  DataDescription enough = data;
  enough.num_train = 2 * num_samples;  // no odd batch
  const auto step_of = [&](const Program& program) -> const PipelineSteps::Step& {
    return pipeline_step(program, RunSchedule(alone, enough).step(1));
  };
  Experiment keeping = alone;
  keeping.train.checkpointing = {};
  const Program program = compile(keeping, enough, device);
  ModelCosts costs;
  costs.forward = make_training_forward(alone, enough, num_samples);
  costs.layers.resize(program.layers.size());
  count_seconds(program, step_of(program), rates, costs.layers);
  costs.parameters = parameter_costs(program, experiment.memory.gradients);
  for_each_call(program, program.update,
                [&](const OpCall& call) { costs.update_seconds += computing_seconds(program, call, rates); });
  const Type type = alone.train.checkpointing.type;
  if (type == Type::off) {
    count_kept(program, step_of(program), costs.layers);
  } else if (type != Type::budget && type != Type::automatic) {
    const Program recomputing = compile(alone, enough, device);
    count_kept(recomputing, step_of(recomputing), costs.layers);
  }
  return costs;
}

}  // namespace trainer
