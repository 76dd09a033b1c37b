#include "engine/train/fresh_state.h"

#include "engine/ops/loss_scale.h"
#include "engine/train/parameter_init.h"

namespace trainer {

void load_cleared_state(Executor& executor, const Experiment& experiment) {
  const Program& program = executor.program();
  executor.begin_step(0);
  executor.run(program.load, {});
  clear_statistics(executor);
  for (const OptimizerBuffers& buffers : program.optimizer_buffers) {
    if (buffers.first >= 0) executor.clear(buffers.first);
    if (buffers.second >= 0) executor.clear(buffers.second);
  }
  if (program.loss_scale >= 0) {
    LossScaleState scale{};
    scale[loss_scale_factor] = experiment.train.loss_scale.initial;
    executor.write(program.loss_scale, scale.data());
  }
}

void clear_statistics(Executor& executor) {
  const Program& program = executor.program();
  executor.clear(program.loss_statistics);
  if (program.part_sums.statistics >= 0) executor.clear(program.part_sums.statistics);
}

void load_fresh_state(Executor& executor, const Experiment& experiment) {
  const Program& program = executor.program();
  load_cleared_state(executor, experiment);
  initialize_parameters(executor, experiment.seed);
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    if (program.parameters[i].is_frozen()) executor.clear(program.parameter_buffers[i]);
  write_frozen_constants(executor);
  follow_parameters(executor);
  executor.device().synchronize();
}

void follow_parameters(Executor& executor) {
  const Program& program = executor.program();
  if (!program.refresh.instructions.empty()) executor.run(program.refresh, {});
  if (!program.start_averages.instructions.empty()) executor.run(program.start_averages, {.average_share = 1});
}

}  // namespace trainer
