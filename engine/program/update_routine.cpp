#include "engine/program/update_routine.h"

#include <utility>
#include <vector>

#include "engine/graph/trained_layers.h"
#include "engine/program/rank_sums.h"
#include "engine/program/weight_averages.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

bool is_adam(const OptimizerConfig& optimizer) { return optimizer.type != OptimizerType::sgd; }

/// Parameters that one call updates.
struct UpdateGroup {
  double weight_decay = 0;
  UpdatePace pace;
  UpdateFormat format;  ///< but for its streams
  bool rounds_weights = false;
  std::vector<std::int32_t> parameters;

  bool is_alike(const UpdateGroup& other) const {
    return weight_decay == other.weight_decay && pace == other.pace && format == other.format &&
           rounds_weights == other.rounds_weights;
  }
};

std::vector<UpdateGroup> group_of(const Program& program, const std::vector<BufferId>& gradients,
                                  const Experiment& experiment, BufferId factor,
                                  std::span<const std::int32_t> parameters) {
  const GroupNumbers& lr = experiment.optimizer.lr;
  const std::vector<double> rates = numbers_of_groups(lr, experiment.groups, "optimizer.lr");
  const std::vector<double> decays =
      numbers_of_groups(experiment.optimizer.weight_decay, experiment.groups, "optimizer.weight_decay");
  std::vector<UpdateGroup> groups;
  for (const std::int32_t p : parameters) {
    const Parameter& parameter = program.parameters[p];
    UpdateGroup group;
    const auto layers = static_cast<std::size_t>(parameter.group);
    if (parameter.decays || experiment.optimizer.decay_norms_and_biases) group.weight_decay = decays[layers];
    group.pace.rate_factor = lr.number > 0 ? rates[layers] / lr.number : 1;
    const auto begun = experiment.optimizer.updates_before.find(parameter.name);
    if (begun != experiment.optimizer.updates_before.end()) group.pace.updates_before = begun->second;
    group.pace.cycles_momentum = !experiment.schedule.momentum.empty();
    group.format.factored = factor >= 0;
    group.format.scaled = program.loss_scale >= 0;
    group.format.gradients = program.buffers[gradients[p]].type.dtype;
    if (const BufferId copy = program.copy_buffers[p]; copy >= 0)
      group.format.copies = program.buffers[copy].type.dtype;
    group.rounds_weights = parameter.type.dtype != DType::f32;
    UpdateGroup* alike = nullptr;
    for (UpdateGroup& known : groups)
      if (known.is_alike(group)) alike = &known;
    if (alike == nullptr) alike = &groups.emplace_back(std::move(group));
    alike->parameters.push_back(p);
  }
  return groups;
}

Op update_op(const Experiment& experiment, std::span<const TensorType> weights, const UpdateGroup& group) {
  const OptimizerConfig& optimizer = experiment.optimizer;
  UpdateFormat format = group.format;
  if (group.rounds_weights)
    for (const std::int32_t p : group.parameters) format.random_streams.push_back(static_cast<std::uint32_t>(p));
  if (is_adam(optimizer)) {
    return adam_update_op(weights, {.beta1 = optimizer.beta1,
                                    .beta2 = optimizer.beta2,
                                    .eps = optimizer.eps,
                                    .weight_decay = group.weight_decay,
                                    .decoupled = optimizer.type == OptimizerType::adamw,
                                    .eight_bit = experiment.memory.moments == MomentStorage::eight_bit,
                                    .format = std::move(format),
                                    .pace = group.pace});
  }
  return sgd_update_op(weights, {.momentum = optimizer.momentum,
                                 .nesterov = optimizer.nesterov,
                                 .weight_decay = group.weight_decay,
                                 .format = std::move(format),
                                 .pace = group.pace});
}

/// Norm, unscaling and clipping of all gradients; -1 where there is nothing of it.
BufferId append_gradient_factor(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                                std::span<const BufferId> gradients) {
  const bool is_scaled = program.loss_scale >= 0;
  if (experiment.train.clip_norm <= 0 && !is_scaled) return -1;
  std::vector<TensorType> types;
  std::vector<BufferId> inputs;
  if (is_scaled) inputs.push_back(program.loss_scale);
  for (const BufferId gradient : gradients) {
    types.push_back(program.buffers[gradient].type);
    inputs.push_back(gradient);
  }
  const Op op = gradient_factor_op(types, {.clip_norm = experiment.train.clip_norm, .scaled = is_scaled});
  const BufferId factor =
      scheduler.add_buffer("optimizer.gradient_factor", no_layer, Category::temporary, op.outputs[0]);
  routine.instructions.push_back({Kind::allocate, factor, no_layer, Phase::update});
  scheduler.append_call(routine, op, std::move(inputs), {factor}, no_layer, Phase::update);
  return factor;
}

}  // namespace

void append_optimizer_state(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  program.optimizer_buffers.resize(program.parameters.size());
  const bool eight_bit = experiment.memory.moments == MomentStorage::eight_bit;
  const auto add_state = [&](const Parameter& parameter, const char* role, const TensorType& type) {
    const BufferId buffer =
        scheduler.add_buffer(parameter.name + "." + role, parameter.layer, Category::optimizer_state, type);
    program.load.instructions.push_back({Kind::allocate, buffer, parameter.layer, Phase::load});
    return buffer;
  };
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (!parameter.trainable) continue;
    OptimizerBuffers& state = program.optimizer_buffers[p];
    const TensorType f32{DType::f32, parameter.type.shape};
    if (is_adam(experiment.optimizer)) {
      const TensorType moment = eight_bit ? moment_type(f32.num_elements()) : f32;
      state.first = add_state(parameter, "first_moment", moment);
      state.second = add_state(parameter, "second_moment", moment);
    } else if (experiment.optimizer.momentum > 0) {
      state.first = add_state(parameter, "momentum", f32);
    }
  }
}

void append_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                   BufferId factor, std::span<const std::int32_t> parameters) {
  const std::vector<BufferId>& gradients = scheduler.gradient_buffers();
  for (const UpdateGroup& group : group_of(program, gradients, experiment, factor, parameters)) {
    std::vector<BufferId> inputs = {program.loss_statistics};
    if (group.format.factored) inputs.push_back(factor);
    if (group.format.scaled) inputs.push_back(program.loss_scale);
    std::vector<TensorType> weights;
    for (const std::int32_t p : group.parameters) {
      weights.push_back(program.parameters[p].type);
      inputs.push_back(program.parameter_buffers[p]);
      inputs.push_back(gradients[p]);
      const OptimizerBuffers& state = program.optimizer_buffers[p];
      for (const BufferId more : {program.copy_buffers[p], state.first, state.second})
        if (more >= 0) inputs.push_back(more);
    }
    scheduler.append_call(routine, update_op(experiment, weights, group), std::move(inputs), {}, no_layer,
                          Phase::update);
  }
}

namespace {

void append_whole_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine) {
  std::vector<std::int32_t> parameters;
  std::vector<BufferId> gradients;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (!program.parameters[p].trainable) continue;
    parameters.push_back(static_cast<std::int32_t>(p));
    gradients.push_back(scheduler.gradient_buffers()[p]);
  }
  append_rank_sums(program, scheduler, experiment.parallel.data, routine, gradients);
  const BufferId factor = append_gradient_factor(program, scheduler, experiment, routine, gradients);
  append_update(program, scheduler, experiment, routine, factor, parameters);
  for (const BufferId gradient : gradients)
    routine.instructions.push_back({Kind::release, gradient, program.buffers[gradient].layer, Phase::update});
  if (program.loss_scale >= 0) {
    const LossScaleConfig& config = experiment.train.loss_scale;
    scheduler.append_call(
        routine,
        update_loss_scale_op({.growth = config.growth, .backoff = config.backoff, .interval = config.interval}),
        {program.loss_statistics, factor, program.loss_scale}, {}, no_layer, Phase::update);
  }
  if (factor >= 0) routine.instructions.push_back({Kind::release, factor, no_layer, Phase::update});
}

}  // namespace

Routine schedule_update(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  Routine routine;
  routine.name = "update";
  if (!scheduler.append_update()) append_whole_update(program, scheduler, experiment, routine);
  append_averaging(program, scheduler, routine, Phase::update);
  return routine;
}

}  // namespace trainer
