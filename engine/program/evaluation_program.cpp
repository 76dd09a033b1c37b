#include "engine/program/evaluation_program.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/part_sums.h"
#include "engine/program/placement.h"
#include "engine/program/rank_sums.h"
#include "engine/program/run_schedule.h"
#include "engine/program/schedule.h"

namespace trainer {
namespace {

/// What a loss reads of the model, whatever it is a view of; -1 where no loss reads it whole.
ValueId prediction_read_by_loss(const Graph& graph) {
  for (const GraphNode& node : graph.nodes) {
    switch (node.op.kind) {
      case OpKind::cross_entropy:
      case OpKind::mse:
      case OpKind::smooth_l1:
      case OpKind::bce_with_logits: {
        ValueId value = node.inputs[0];
        while (graph.values[value].view_of >= 0) value = graph.values[value].view_of;
        const bool is_made = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& other) {
          return std::find(other.outputs.begin(), other.outputs.end(), value) != other.outputs.end();
        });
        return is_made ? value : -1;
      }
      default:
        break;
    }
  }
  return -1;
}

/// Persistent buffers: Note [Evaluation alone].
class EvaluationBuffers {
 public:
  EvaluationBuffers(Program& program, Scheduler& scheduler) : program_(program), scheduler_(scheduler) {}

  void adopt(const Graph& graph) {
    program_.layers = graph.layers;
    program_.parameters = graph.parameters;
    program_.loss_parts = graph.loss_parts;
    program_.frozen_networks = graph.frozen_networks;
    program_.copy_buffers.assign(program_.parameters.size(), -1);
    program_.optimizer_buffers.resize(program_.parameters.size());
    for (std::size_t p = 0; p < program_.parameters.size(); ++p) {
      require_internal(graph.parameter_copies[p] < 0, "a parameter without a master has no copy");
      program_.parameter_buffers.push_back(add(program_.parameters[p].name, graph.values[graph.parameter_values[p]]));
    }
    program_.loss_statistics = add("loss.statistics", graph.values[graph.loss_statistics]);
    if (graph.metric_counts >= 0) program_.metric_counts = add("metrics.counts", graph.values[graph.metric_counts]);
  }

  void add_staging(const Graph& graph) {
    for (const ValueId field : graph.fields())
      program_.staged_fields.push_back(add(name_of(graph, field) + ".staged", graph.values[field]));
  }

  void keep(Graph& graph, ValueId value) {
    program_.kept_predictions.push_back(add(name_of(graph, value), graph.values[value]));
    graph.kept = {value};
  }

 private:
  static std::string name_of(const Graph& graph, ValueId value) {
    const Value& info = graph.values[value];
    return graph.layers[info.layer].path + "." + info.role;
  }
  BufferId add(std::string name, const Value& value) {
    const BufferId buffer = scheduler_.add_buffer(std::move(name), value.layer, value.category, value.type);
    program_.load.instructions.push_back({Instruction::Kind::allocate, buffer, value.layer, Phase::load});
    return buffer;
  }

  Program& program_;
  Scheduler& scheduler_;
};

}  // namespace

Program compile_evaluation(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                           bool keeps_prediction) {
  const RunSchedule schedule(experiment, data);
  if (!schedule.evaluates())
    throw ConfigError("there is no validation data to evaluate on: give data.split, or other validation data");
  Program program;
  program.load.name = "load";
  program.update.name = "update";
  program.refresh.name = "refresh";
  Scheduler scheduler(program, device, experiment.memory.in_place);
  EvaluationBuffers buffers(program, scheduler);
  PrecisionOptions precision = precision_options(experiment);
  precision.master_weights = false;
  precision.scales_loss = false;

  const std::int64_t whole = schedule.num_whole_eval_batches() > 0 ? schedule.eval_batch_size() : 0;
  // The largest first, which the staged fields are for.
  for (const std::int64_t batch_size : schedule.pass_sizes(std::array{whole, schedule.odd_eval_batch_size()})) {
    if (batch_size == 0) break;
    Graph graph = make_evaluation_graph(experiment, data, batch_size, device, precision);
    if (program.layers.empty()) {
      buffers.adopt(graph);
      if (device.copies_ahead()) buffers.add_staging(graph);
      add_part_statistics(program, scheduler, schedule);
    }
    if (const ValueId prediction = prediction_read_by_loss(graph); keeps_prediction && prediction >= 0)
      buffers.keep(graph, prediction);
    const bool is_whole = batch_size == schedule.own_eval_batch_size();
    program.evaluations.push_back(
        scheduler.schedule_evaluation(graph, is_whole ? "evaluate" : "evaluate, odd last batch"));
  }
  program.agree_evaluation = schedule_agreement(program, scheduler);
  if (experiment.memory.allocator == AllocatorKind::planned) place(program);
  return program;
}

bool has_logits_in_parts(const Program& program) {
  return std::any_of(program.calls.begin(), program.calls.end(),
                     [](const OpCall& call) { return call.op.kind == OpKind::linear_cross_entropy; });
}

}  // namespace trainer
