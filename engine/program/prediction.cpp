#include "engine/program/prediction.h"

#include <utility>

#include "engine/graph/prediction_graph.h"
#include "engine/program/concat_placement.h"
#include "engine/program/placement.h"
#include "engine/program/precision.h"
#include "engine/program/relu_fusion.h"
#include "engine/program/residual_fusion.h"
#include "engine/program/schedule.h"

namespace trainer {
namespace {

/// Through the passes of an evaluation's graph, in their order (engine/program/compile.cpp).
Graph make_prediction_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size) {
  Graph graph = build_prediction_graph(experiment, data, batch_size);
  if (experiment.train.amp != Amp::off) {
    PrecisionOptions options = precision_options(experiment);
    options.master_weights = false;
    options.scales_loss = false;
    apply_precision(graph, options);
  }
  fuse_relu_into_pooling(graph, experiment.memory.in_place);
  fuse_relu(graph);
  fuse_sums_into_batchnorms(graph);
  fuse_residuals(graph, experiment.memory.in_place);
  place_concatenated(graph, experiment.memory.in_place);
  return graph;
}

void adopt_parameters(Program& program, Scheduler& scheduler, const Graph& graph) {
  program.layers = graph.layers;
  program.parameters = graph.parameters;
  program.copy_buffers.assign(program.parameters.size(), -1);
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    require_internal(graph.parameter_copies[p] < 0, "a parameter without a master has no copy");
    const Value& value = graph.values[graph.parameter_values[p]];
    program.parameter_buffers.push_back(
        scheduler.add_buffer(program.parameters[p].name, value.layer, value.category, value.type));
    program.load.instructions.push_back(
        {Instruction::Kind::allocate, program.parameter_buffers.back(), value.layer, Phase::load});
  }
}

PredictionRoutines::Batch schedule_batch(const Graph& graph, Scheduler& scheduler, const std::string& name) {
  PredictionRoutines::Batch batch;
  batch.batch_size = graph.batch_size;
  batch.type = graph.values[graph.prediction].type;
  batch.predict = scheduler.schedule_prediction(graph, name, batch.prediction);
  batch.release.name = "release of the prediction";
  batch.release.instructions.push_back(
      {Instruction::Kind::release, batch.prediction, graph.values[graph.prediction].layer, Phase::eval});
  return batch;
}

}  // namespace

Program compile_prediction(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                           std::int64_t odd_batch_size, const DeviceModel& device) {
  require_internal(batch_size >= 1 && odd_batch_size >= 0, "a batch has an input");
  Program program;
  program.load.name = "load";
  program.prediction.emplace();
  Scheduler scheduler(program, device, experiment.memory.in_place);
  Graph graph = make_prediction_graph(experiment, data, batch_size);
  adopt_parameters(program, scheduler, graph);
  program.prediction->batches.push_back(schedule_batch(graph, scheduler, "predict"));
  if (odd_batch_size > 0) {
    graph = make_prediction_graph(experiment, data, odd_batch_size);
    program.prediction->batches.push_back(schedule_batch(graph, scheduler, "predict, odd last batch"));
  }
  if (experiment.memory.allocator != AllocatorKind::caching) place(program);
  return program;
}

}  // namespace trainer
