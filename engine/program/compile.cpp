#include "engine/program/compile.h"

#include <algorithm>
#include <utility>

#include "engine/program/fusion.h"
#include "engine/program/linear_fusion.h"
#include "engine/program/schedule.h"
#include "engine/program/update_routine.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

Graph make_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size, GraphMode mode,
                 LinearFusions fusions) {
  Graph graph = build_graph(experiment, data, batch_size, mode);
  fuse_relu(graph);
  if (mode == GraphMode::training) {
    differentiate(graph);
    fuse_loss_gradient(graph);
  }
  fuse_linear_gradients(graph, fusions);
  return graph;
}

/// Takes over what all graphs have alike, and lays out the persistent buffers.
void adopt_model(Program& program, Scheduler& scheduler, const Experiment& experiment, const Graph& graph) {
  program.layers = graph.layers;
  program.parameters = graph.parameters;
  bool trains = false;
  for (const Parameter& parameter : program.parameters) {
    const BufferId buffer = scheduler.add_buffer(parameter.name, parameter.layer, Category::parameter, parameter.type);
    program.parameter_buffers.push_back(buffer);
    program.load.instructions.push_back({Kind::allocate, buffer, parameter.layer, Phase::load});
    trains = trains || parameter.trainable;
  }
  if (!trains) throw ConfigError("the model has no parameters to train: add a linear or conv2d layer to model.layers");
  append_optimizer_state(program, scheduler, experiment);
  const Value& statistics = graph.values[graph.loss_statistics];
  program.loss_statistics =
      scheduler.add_buffer("loss.statistics", statistics.layer, statistics.category, statistics.type);
  program.load.instructions.push_back({Kind::allocate, program.loss_statistics, statistics.layer, Phase::load});
}

/// A persistent buffer of the type of `value`, for the largest batch that the run will meet.
BufferId add_staging(Program& program, Scheduler& scheduler, const Graph& graph, ValueId value, std::int64_t samples) {
  const Value& info = graph.values[value];
  TensorType type = info.type;
  type.shape = type.shape.with_batch(samples);
  const BufferId buffer = scheduler.add_buffer(graph.layers[info.layer].path + "." + info.role + ".staged", info.layer,
                                               info.category, type);
  program.load.instructions.push_back({Kind::allocate, buffer, info.layer, Phase::load});
  return buffer;
}

}  // namespace

Program compile(const Experiment& experiment, const DataDescription& data, const DeviceModel& device) {
  const RunSchedule schedule(experiment, data);
  Program program;
  program.load.name = "load";
  Scheduler scheduler(program, device);

  std::vector<std::int64_t> batch_sizes = {schedule.batch_size()};
  if (schedule.odd_batch_size() > 0) batch_sizes.push_back(schedule.odd_batch_size());
  for (std::int64_t batch_size : batch_sizes) {
    const Graph graph = make_graph(experiment, data, batch_size, GraphMode::training, device.linear_fusions());
    if (program.layers.empty()) {
      adopt_model(program, scheduler, experiment, graph);
      if (device.copies_ahead()) {
        const std::int64_t samples = std::max(schedule.batch_size(), schedule.eval_batch_size());
        program.staged_batch = add_staging(program, scheduler, graph, graph.batch, samples);
        program.staged_targets = add_staging(program, scheduler, graph, graph.targets, samples);
      }
    }
    const std::string suffix = batch_size == schedule.batch_size() ? "" : ", odd last batch";
    Program::MicroBatch micro_batch;
    micro_batch.batch_size = batch_size;
    micro_batch.first = scheduler.schedule_training(graph, Scheduler::Gradients::start, "train" + suffix);
    if (schedule.accumulates()) {
      micro_batch.next = scheduler.schedule_training(graph, Scheduler::Gradients::add, "train, accumulating" + suffix);
    }
    program.micro_batches.push_back(std::move(micro_batch));
  }
  program.update = schedule_update(program, scheduler, experiment);

  std::vector<std::int64_t> eval_sizes;
  if (schedule.num_whole_eval_batches() > 0) eval_sizes.push_back(schedule.eval_batch_size());
  if (schedule.odd_eval_batch_size() > 0) eval_sizes.push_back(schedule.odd_eval_batch_size());
  for (std::int64_t batch_size : eval_sizes) {
    const Graph graph = make_graph(experiment, data, batch_size, GraphMode::evaluation, {});
    const bool is_whole = batch_size == schedule.eval_batch_size();
    program.evaluations.push_back(
        scheduler.schedule_evaluation(graph, is_whole ? "evaluate" : "evaluate, odd last batch"));
  }
  return program;
}

std::string Program::layer_label(LayerId layer) const {
  if (layer == no_layer) return "optimizer";
  return layers[layer].path + " (" + layers[layer].kind + ")";
}

}  // namespace trainer
