#include "engine/program/update_routine.h"

#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "engine/graph/trained_layers.h"
#include "engine/program/part_sums.h"
#include "engine/program/rank_sums.h"
#include "engine/program/sharding.h"
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

Op update_op(const Experiment& experiment, const Program& program, std::span<const TensorType> weights,
             const UpdateGroup& group) {
  const OptimizerConfig& optimizer = experiment.optimizer;
  UpdateFormat format = group.format;
  if (group.rounds_weights) {
    for (const std::int32_t p : group.parameters) {
      format.random_streams.push_back(static_cast<std::uint32_t>(p));
      if (!Sharding(experiment).is_on()) continue;
      const std::int64_t count = program.parameters[p].type.num_elements();
      format.first_elements.push_back(rank_part(count, program.ranks.num_data, program.ranks.data_place()).begin);
    }
  }
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

/// Of several stages that hold a parameter the first counts it, and of ranks that hold the same of a layer.
bool counts_in_norm(const Program& program, std::int32_t parameter) {
  const bool is_part = !program.parameter_cuts.empty() && program.parameter_cuts[parameter];
  if (!is_part && program.ranks.tensor_place() > 0) return false;
  return program.parameter_stages.empty() || program.parameter_stages[parameter].front() == program.ranks.stage();
}

/// Whether ranks have parts of the model of their own, layers or parts of layers, even where no data is shared.
bool shares_model(const Program& program) { return program.ranks.num_stages > 1 || program.ranks.num_tensor > 1; }

/// The sum of squares of gradients of all ranks that have parts of them: those of `groups`, one behind the other.
BufferId append_squares(Program& program, Scheduler& scheduler, Routine& routine, std::span<const BufferId> gradients,
                        std::initializer_list<RankGroup> groups) {
  std::vector<TensorType> types;
  for (const BufferId gradient : gradients) types.push_back(program.buffers[gradient].type);
  const Op op = gradient_squares_op(
      types, {.exact = program.part_sums.is_on || program.pipeline || program.ranks.num_tensor > 1});
  const TensorType type = op.outputs[0];
  const BufferId squares = scheduler.add_buffer("optimizer.gradient_squares", no_layer, Category::temporary, type);
  routine.instructions.push_back({Kind::allocate, squares, no_layer, Phase::update});
  if (gradients.empty())
    scheduler.append_call(routine, fill_zero_op({&type, 1}), {squares}, {}, no_layer, Phase::update);
  else
    scheduler.append_call(routine, op, {gradients.begin(), gradients.end()}, {squares}, no_layer, Phase::update);
  for (const RankGroup& ranks : groups)
    if (ranks.count > 1)
      scheduler.append_call(routine, all_reduce_op({&type, 1}, ranks), {squares}, {}, no_layer, Phase::update);
  return squares;
}

/// Norm, unscaling and clipping of gradients that this rank has for `parameters`, whole or in part; -1 where there is
/// nothing of it.
BufferId append_gradient_factor(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                                std::span<const std::int32_t> parameters, const std::vector<BufferId>& gradient_of) {
  const bool is_scaled = program.loss_scale >= 0;
  if (experiment.train.clip_norm <= 0 && !is_scaled) return -1;
  std::vector<BufferId> gradients;
  for (const std::int32_t p : parameters)
    if (counts_in_norm(program, p)) gradients.push_back(gradient_of[p]);
  BufferId squares = -1;
  const bool are_parts = Sharding(experiment).is_on();
  if (are_parts || program.part_sums.is_on || program.pipeline || program.ranks.num_tensor > 1) {
    const RankLayout& ranks = program.ranks;
    squares = are_parts ? append_squares(program, scheduler, routine, gradients, {ranks.all()})
                        : append_squares(program, scheduler, routine, gradients,
                                         {ranks.tensor_group(), ranks.pipeline_group()});
    gradients = {squares};
  }
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
  if (squares >= 0) routine.instructions.push_back({Kind::release, squares, no_layer, Phase::update});
  return factor;
}

}  // namespace

void append_optimizer_state(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  program.optimizer_buffers.resize(program.parameters.size());
  const Sharding sharding(experiment);
  const bool eight_bit = experiment.memory.moments == MomentStorage::eight_bit;
  const auto add_state = [&](std::size_t p, const char* role, const TensorType& type) {
    const Parameter& parameter = program.parameters[p];
    return add_kept(program, scheduler, p, parameter.name + "." + role, Category::optimizer_state, type,
                    sharding.cuts_state(parameter));
  };
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (!parameter.trainable) continue;
    OptimizerBuffers& state = program.optimizer_buffers[p];
    const TensorType f32{DType::f32, parameter.type.shape};
    if (is_adam(experiment.optimizer)) {
      const TensorType moment = eight_bit ? moment_type(f32.num_elements()) : f32;
      state.first = add_state(p, "first_moment", moment);
      state.second = add_state(p, "second_moment", moment);
    } else if (experiment.optimizer.momentum > 0) {
      state.first = add_state(p, "momentum", f32);
    }
  }
}

void append_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                   BufferId factor, std::span<const std::int32_t> parameters) {
  const std::vector<BufferId>& gradients = scheduler.gradient_buffers();
  const bool has_parts = Sharding(experiment).is_on();
  for (const UpdateGroup& group : group_of(program, gradients, experiment, factor, parameters)) {
    std::vector<BufferId> inputs = {program.loss_statistics};
    if (group.format.factored) inputs.push_back(factor);
    if (group.format.scaled) inputs.push_back(program.loss_scale);
    std::vector<TensorType> weights;
    const auto own = [&](BufferId buffer) { return has_parts ? part_of(program, scheduler, buffer) : buffer; };
    for (const std::int32_t p : group.parameters) {
      const BufferId weight = own(program.parameter_buffers[p]);
      weights.push_back(program.buffers[weight].type);
      inputs.push_back(weight);
      inputs.push_back(has_parts ? scheduler.gradient_parts()[p] : gradients[p]);
      if (program.copy_buffers[p] >= 0) inputs.push_back(own(program.copy_buffers[p]));
      const OptimizerBuffers& state = program.optimizer_buffers[p];
      for (const BufferId more : {state.first, state.second})
        if (more >= 0) inputs.push_back(more);
    }
    scheduler.append_call(routine, update_op(experiment, program, weights, group), std::move(inputs), {}, no_layer,
                          Phase::update);
  }
}

namespace {

/// The parameters that this rank trains.
std::vector<std::int32_t> trained_parameters(const Program& program) {
  std::vector<std::int32_t> parameters;
  for (std::size_t p = 0; p < program.parameters.size(); ++p)
    if (program.parameters[p].trainable && program.holds(p)) parameters.push_back(static_cast<std::int32_t>(p));
  return parameters;
}

void append_loss_scale_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine,
                              BufferId factor) {
  if (program.loss_scale < 0) return;
  const LossScaleConfig& config = experiment.train.loss_scale;
  scheduler.append_call(
      routine, update_loss_scale_op({.growth = config.growth, .backoff = config.backoff, .interval = config.interval}),
      {program.loss_statistics, factor, program.loss_scale}, {}, no_layer, Phase::update);
}

/// Those whose gradients no bucket of the backward pass has summed.
std::vector<std::int32_t> parameters_to_sum(Scheduler& scheduler, std::span<const std::int32_t> parameters) {
  std::vector<std::int32_t> left;
  for (const std::int32_t p : parameters)
    if (scheduler.gradients_at(0).are_summed[p] == 0) left.push_back(p);
  return left;
}

/// Adds up gradients of which ranks that share layers have terms: Note [Cut rows] in tensor/cut_rows.h.
void append_sums_of_layers(Program& program, Scheduler& scheduler, Routine& routine,
                           std::span<const std::int32_t> parameters, const std::vector<BufferId>& gradient_of) {
  if (program.gradient_terms.empty()) return;
  std::map<DType, std::vector<BufferId>> terms;
  for (const std::int32_t p : parameters)
    if (const BufferId gradient = gradient_of[p]; program.gradient_terms[p] && gradient >= 0)
      terms[program.buffers[gradient].type.dtype].push_back(gradient);
  for (auto& [dtype, gradients] : terms) {
    std::vector<TensorType> types;
    for (const BufferId gradient : gradients) types.push_back(program.buffers[gradient].type);
    scheduler.append_call(routine, all_reduce_op(types, program.ranks.tensor_group()), std::move(gradients), {},
                          no_layer, Phase::update);
  }
}

/// Adds up gradients of parameters that several stages of a pipeline hold, each those of its own layers: pair by pair
/// towards the last of them, which with the last but one then has the sum, and back, where the others give nothing. All
/// ranks come to these pairs in one order, each to its own.
void append_sums_of_stages(Program& program, Scheduler& scheduler, Routine& routine,
                           std::span<const std::int32_t> parameters, const std::vector<BufferId>& gradient_of) {
  if (program.parameter_stages.empty()) return;
  for (const std::int32_t p : parameters) {
    const BufferId gradient = gradient_of[p];
    if (program.parameter_stages[p].size() < 2 || gradient < 0) continue;
    const std::vector<std::int32_t>& stages = program.parameter_stages[p];
    const TensorType type = program.buffers[gradient].type;  // calls add buffers
    const auto append = [&](Op op) {
      scheduler.append_call(routine, std::move(op), {gradient}, {}, program.parameters[p].layer, Phase::update);
    };
    const auto append_pair = [&](std::size_t first) {
      if (stages[first] != program.ranks.stage() && stages[first + 1] != program.ranks.stage()) return;
      append(pair_sum_op({&type, 1}, program.ranks.rank_of_stage(stages[first]),
                         program.ranks.rank_of_stage(stages[first + 1])));
    };
    for (std::size_t first = 0; first + 1 < stages.size(); ++first) append_pair(first);
    for (std::size_t first = stages.size() - 2; first-- > 0;) {
      if (stages[first] == program.ranks.stage()) append(fill_zero_op({&type, 1}));
      append_pair(first);
    }
  }
}

/// Behind the sums over ranks that share a batch, for one stage may have added a weight's up before another has.
void append_sums_of_model(Program& program, Scheduler& scheduler, Routine& routine,
                          std::span<const std::int32_t> parameters, const std::vector<BufferId>& gradient_of) {
  append_sums_of_layers(program, scheduler, routine, parameters, gradient_of);
  append_sums_of_stages(program, scheduler, routine, parameters, gradient_of);
}

/// What of the loss's statistics tells of lost weights.
BufferId count_of_statistics(Program& program, Scheduler& scheduler) {
  const Buffer statistics = program.buffers[program.loss_statistics];
  const BufferId view =
      scheduler.add_buffer(statistics.name + ".counted", statistics.layer, statistics.category, {DType::f64, {1}});
  program.buffers[view].view_of = program.loss_statistics;
  program.buffers[view].view_offset = num_counted * static_cast<std::int64_t>(sizeof(double));
  return view;
}

/// Where each rank updates weights of its own, whether one was lost (Note [Lost weights] in
/// engine/ops/loss_statistics.h) is known behind that: what counts it is summed again there, of which rank 0 has the
/// sum and all others nothing. In front of the update: what is summed behind it.
BufferId append_start_of_count(Program& program, Scheduler& scheduler, Routine& routine) {
  const BufferId counted = count_of_statistics(program, scheduler);
  const TensorType type = program.buffers[counted].type;
  if (program.ranks.rank > 0)
    scheduler.append_call(routine, fill_zero_op({&type, 1}), {counted}, {}, no_layer, Phase::update);
  return counted;
}
void append_sum_of_count(Program& program, Scheduler& scheduler, Routine& routine, BufferId counted) {
  const TensorType type = program.buffers[counted].type;
  scheduler.append_call(routine, all_reduce_op({&type, 1}, program.ranks.all()), {counted}, {}, no_layer,
                        Phase::update);
}

void append_whole_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine) {
  const std::vector<std::int32_t> parameters = trained_parameters(program);
  append_statistics_sum(program, scheduler, routine, Phase::update);
  const BufferId counted = shares_model(program) ? append_start_of_count(program, scheduler, routine) : BufferId{-1};
  if (!program.part_sums.sums_over_ranks) {
    std::vector<BufferId> left;
    for (const std::int32_t p : parameters_to_sum(scheduler, parameters))
      left.push_back(scheduler.gradient_buffers()[p]);
    append_gradient_sums(program, scheduler, routine, left);
  }
  const std::vector<BufferId>& gradients = scheduler.gradient_buffers();
  append_sums_of_model(program, scheduler, routine, parameters, gradients);
  const BufferId factor = append_gradient_factor(program, scheduler, experiment, routine, parameters, gradients);
  append_update(program, scheduler, experiment, routine, factor, parameters);
  for (const std::int32_t p : parameters)
    routine.instructions.push_back({Kind::release, gradients[p], program.parameters[p].layer, Phase::update});
  if (counted >= 0) append_sum_of_count(program, scheduler, routine, counted);
  append_loss_scale_update(program, scheduler, experiment, routine, factor);
  if (factor >= 0) routine.instructions.push_back({Kind::release, factor, no_layer, Phase::update});
}

/// Of whole gradients: sums them, where that has not been done, so that this rank's parts of them hold its parts of the
/// sums.
void append_shared_sums(Program& program, Scheduler& scheduler, Routine& routine,
                        std::span<const std::int32_t> parameters) {
  std::map<DType, std::vector<std::int32_t>> by_type;
  for (const std::int32_t p : parameters_to_sum(scheduler, parameters))
    by_type[program.buffers[scheduler.gradient_buffers()[p]].type.dtype].push_back(p);
  for (const auto& [type, of_type] : by_type) {
    std::vector<BufferId> wholes, parts;
    for (const std::int32_t p : of_type) {
      wholes.push_back(scheduler.gradient_buffers()[p]);
      parts.push_back(part_of(program, scheduler, wholes.back()));
      scheduler.gradient_parts()[p] = parts.back();
    }
    if (program.part_sums.sums_over_ranks) continue;
    auto [op, inputs] = reduce_scatter_of(program, wholes, parts, false);
    scheduler.append_call(routine, std::move(op), std::move(inputs), {}, no_layer, Phase::update);
  }
}

/// The update where ranks have parts of the model: Note [Sharded models].
void append_shared_update(Program& program, Scheduler& scheduler, const Experiment& experiment, Routine& routine) {
  const Sharding sharding(experiment);
  const std::vector<std::int32_t> parameters = trained_parameters(program);
  append_statistics_sum(program, scheduler, routine, Phase::update);
  const BufferId counted = append_start_of_count(program, scheduler, routine);
  if (!sharding.cuts_gradients()) append_shared_sums(program, scheduler, routine, parameters);
  append_sums_of_model(program, scheduler, routine, parameters, scheduler.gradient_parts());
  std::vector<std::int32_t> own;
  std::vector<BufferId> parts;
  for (const std::int32_t p : parameters) {
    const BufferId part = scheduler.gradient_parts()[p];
    if (part < 0) continue;
    own.push_back(p);
    parts.push_back(part);
  }
  const BufferId factor =
      append_gradient_factor(program, scheduler, experiment, routine, own, scheduler.gradient_parts());
  append_update(program, scheduler, experiment, routine, factor, own);
  const auto release = [&](BufferId gradient) {
    routine.instructions.push_back({Kind::release, gradient, program.buffers[gradient].layer, Phase::update});
  };
  if (sharding.cuts_gradients()) {
    for (const BufferId part : parts) release(part);
  } else {
    for (const std::int32_t p : parameters) release(scheduler.gradient_buffers()[p]);
  }
  append_sum_of_count(program, scheduler, routine, counted);
  std::vector<BufferId> updated;
  for (const std::int32_t p : parameters)
    for (const BufferId buffer : {program.parameter_buffers[p], program.copy_buffers[p]})
      if (buffer >= 0 && !is_cut(program.buffers[buffer])) updated.push_back(buffer);
  if (!updated.empty()) append_gather(program, scheduler, routine, updated, Phase::update);
  append_loss_scale_update(program, scheduler, experiment, routine, factor);
  if (factor >= 0) routine.instructions.push_back({Kind::release, factor, no_layer, Phase::update});
}

}  // namespace

Routine schedule_update(Program& program, Scheduler& scheduler, const Experiment& experiment) {
  Routine routine;
  routine.name = "update";
  if (Sharding(experiment).is_on())
    append_shared_update(program, scheduler, experiment, routine);
  else if (!scheduler.append_update())
    append_whole_update(program, scheduler, experiment, routine);
  append_averaging(program, scheduler, routine, Phase::update);
  return routine;
}

}  // namespace trainer
