#include "engine/program/weight_averages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"
#include "engine/program/sharding.h"

namespace trainer {
namespace {

/// Of a step on `graph` that trains; a running statistic where an op moves it.
bool changes(const Graph& graph, std::size_t parameter) {
  if (graph.parameters[parameter].is_weight) return graph.parameters[parameter].trainable;
  const ValueId value = graph.parameter_values[parameter];
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == value && may_modify_input(node.op, static_cast<int>(i))) return true;
    return false;
  });
}

}  // namespace

void append_averages(Program& program, Scheduler& scheduler, const Experiment& experiment, const Graph& graph) {
  program.average_buffers.assign(program.parameters.size(), -1);
  if (experiment.average.type == AverageType::off) return;
  const Sharding sharding(experiment);
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (parameter.is_frozen() || !changes(graph, p)) continue;
    const std::string name = parameter.name + ".average";
    program.average_buffers[p] = add_kept(program, scheduler, p, name, Category::optimizer_state, parameter.type,
                                          sharding.cuts_state(parameter));
  }
  append_copies(program, scheduler, program.average_buffers, program.lend_averages, Phase::eval);
  append_averaging(program, scheduler, program.start_averages, Phase::load);
}

void append_averaging(Program& program, Scheduler& scheduler, Routine& routine, Phase phase) {
  std::vector<TensorType> types;
  std::vector<BufferId> operands;
  for (std::size_t p = 0; p < program.average_buffers.size(); ++p) {
    const BufferId average = program.average_buffers[p];
    if (average < 0 || program.buffers[average].num_bytes == 0) continue;
    const bool is_part = is_cut(program.buffers[average]);
    types.push_back(program.buffers[average].type);
    operands.push_back(is_part ? part_of(program, scheduler, program.parameter_buffers[p])
                               : program.parameter_buffers[p]);
    operands.push_back(average);
  }
  if (types.empty()) return;
  scheduler.append_call(routine, average_weights_op(types), std::move(operands), {}, no_layer, phase);
}

}  // namespace trainer
