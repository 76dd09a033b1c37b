#include "engine/program/update_routine.h"

#include <utility>

namespace trainer {
namespace {

using Kind = Instruction::Kind;

bool is_adam(const OptimizerConfig& optimizer) { return optimizer.type != OptimizerType::sgd; }

Op update_op(const Experiment& experiment, std::span<const TensorType> types, double weight_decay) {
  const OptimizerConfig& optimizer = experiment.optimizer;
  const UpdateFormat format{.factored = experiment.train.clip_norm > 0};
  if (is_adam(optimizer)) {
    return adam_update_op(types, {.beta1 = optimizer.beta1,
                                  .beta2 = optimizer.beta2,
                                  .eps = optimizer.eps,
                                  .weight_decay = weight_decay,
                                  .decoupled = optimizer.type == OptimizerType::adamw,
                                  .format = format});
  }
  return sgd_update_op(
      types,
      {.momentum = optimizer.momentum, .nesterov = optimizer.nesterov, .weight_decay = weight_decay, .format = format});
}

/// Appends the update of every parameter for which decays == `decays` (or all of them).
void append_group(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine, BufferId norm,
                  std::span<const std::int32_t> parameters, double weight_decay) {
  if (parameters.empty()) return;
  std::vector<BufferId> inputs = {program.loss_statistics};
  std::vector<TensorType> types;
  if (norm >= 0) inputs.push_back(norm);
  for (std::int32_t p : parameters) {
    types.push_back(program.parameters[p].type);
    inputs.push_back(program.parameter_buffers[p]);
    inputs.push_back(scheduler.gradient_buffers()[p]);
    const OptimizerBuffers& state = program.optimizer_buffers[p];
    if (state.first >= 0) inputs.push_back(state.first);
    if (state.second >= 0) inputs.push_back(state.second);
  }
  scheduler.append_call(routine, update_op(experiment, types, weight_decay), std::move(inputs), {}, no_layer,
                        Phase::update);
}

}  // namespace

void append_optimizer_state(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  program.optimizer_buffers.resize(program.parameters.size());
  auto add_state = [&](const Parameter& parameter, const char* role) {
    const BufferId buffer =
        scheduler.add_buffer(parameter.name + "." + role, parameter.layer, Category::optimizer_state, parameter.type);
    program.load.instructions.push_back({Kind::allocate, buffer, parameter.layer, Phase::load});
    return buffer;
  };
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (!parameter.trainable) continue;
    OptimizerBuffers& state = program.optimizer_buffers[p];
    if (is_adam(experiment.optimizer)) {
      state.first = add_state(parameter, "first_moment");
      state.second = add_state(parameter, "second_moment");
    } else if (experiment.optimizer.momentum > 0) {
      state.first = add_state(parameter, "momentum");
    }
  }
}

Routine schedule_update(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  Routine routine;
  routine.name = "update";
  const std::vector<BufferId>& gradients = scheduler.gradient_buffers();
  std::vector<std::int32_t> decaying, others;
  std::vector<TensorType> types;
  std::vector<BufferId> live_gradients;
  const double weight_decay = experiment.optimizer.weight_decay;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (!parameter.trainable) continue;
    const bool decays = weight_decay > 0 && (parameter.decays || experiment.optimizer.decay_norms_and_biases);
    (decays ? decaying : others).push_back(static_cast<std::int32_t>(p));
    types.push_back(parameter.type);
    live_gradients.push_back(gradients[p]);
  }

  BufferId norm = -1;
  if (experiment.train.clip_norm > 0) {
    norm = scheduler.add_buffer("optimizer.gradient_factor", no_layer, Category::temporary,
                                 {DType::f32, {num_gradient_factors}});
    routine.instructions.push_back({Kind::allocate, norm, no_layer, Phase::update});
    scheduler.append_call(routine, gradient_factor_op(types, {.clip_norm = experiment.train.clip_norm}), live_gradients,
                          {norm}, no_layer, Phase::update);
  }
  append_group(program, scheduler, experiment, routine, norm, decaying, weight_decay);
  append_group(program, scheduler, experiment, routine, norm, others, 0);
  for (BufferId gradient : live_gradients)
    routine.instructions.push_back({Kind::release, gradient, program.buffers[gradient].layer, Phase::update});
  if (norm >= 0) routine.instructions.push_back({Kind::release, norm, no_layer, Phase::update});
  return routine;
}

}  // namespace trainer
