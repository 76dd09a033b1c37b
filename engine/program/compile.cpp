#include "engine/program/compile.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "engine/config/diagnostic.h"
#include "engine/graph/shared_norms.h"
#include "engine/memory/rounding.h"
#include "engine/program/chunked_loss.h"
#include "engine/program/concat_placement.h"
#include "engine/program/evaluation_program.h"
#include "engine/program/fusion.h"
#include "engine/program/lent_places.h"
#include "engine/program/linear_fusion.h"
#include "engine/program/mask_reads.h"
#include "engine/program/offload.h"
#include "engine/program/part_sums.h"
#include "engine/program/pipeline/pipeline_steps.h"
#include "engine/program/pipeline/split_backward.h"
#include "engine/program/placement.h"
#include "engine/program/precision.h"
#include "engine/program/rank_sums.h"
#include "engine/program/relu_fusion.h"
#include "engine/program/residual_fusion.h"
#include "engine/program/routine_walk.h"
#include "engine/program/run_checks.h"
#include "engine/program/schedule.h"
#include "engine/program/sharding.h"
#include "engine/program/statistics_fusion.h"
#include "engine/program/tensor/cut_layers.h"
#include "engine/program/update_routine.h"
#include "engine/program/weight_averages.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

/// The forward pass of the whole model.
Graph make_forward_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                         GraphMode mode, const PrecisionOptions& precision) {
  Graph graph = build_graph(experiment, data, batch_size, mode);
  cut_layers(graph, experiment, data);
  if (experiment.train.amp != Amp::off) apply_precision(graph, precision);
  fuse_relu_into_pooling(graph, experiment.memory.in_place);
  fuse_relu(graph);
  return graph;
}

/// That of this rank's stage, where there is a pipeline, and what follows from it. `num_samples`: of the largest batch
/// in which the same ops run, here or on other ranks.
Graph complete_graph(Graph graph, const Experiment& experiment, const DeviceModel& device, std::int64_t num_samples) {
  const GraphMode mode = graph.mode;
  if (mode == GraphMode::training) {
    differentiate(graph);
    read_masks_further_on(graph, experiment.memory.in_place);
  }
  const bool has_loss = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), graph.loss_statistics) != node.inputs.end();
  });
  if (has_loss) chunk_loss(graph, experiment.memory.chunked_loss, num_samples);
  if (mode == GraphMode::training) fuse_loss_gradient(graph);
  if (mode == GraphMode::training) fuse_linear_gradients(graph, device.linear_fusions());
  fuse_sums_into_batchnorms(graph);
  if (mode == GraphMode::training) take_statistics_from_convolutions(graph, device);
  return graph;
}

Graph make_forward_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                         GraphMode mode) {
  return make_forward_graph(experiment, data, batch_size, mode, precision_options(experiment));
}

Graph complete_evaluation(Graph forward, const Experiment& experiment, const DeviceModel& device) {
  const std::int64_t num_samples = forward.batch_size;
  Graph graph = complete_graph(std::move(forward), experiment, device, num_samples);
  fuse_residuals(graph, experiment.memory.in_place);
  place_concatenated(graph, experiment.memory.in_place);
  return graph;
}

/// How the model is cut: Note [Pipelines] in pipeline/stage_graph.h. Without a pipeline graphs stay whole.
class Stages {
 public:
  Stages(const Experiment& experiment, const DataDescription& data)
      : ranks_(rank_layout(experiment.parallel)), is_on_(is_pipelined(experiment.parallel)) {
    if (!is_on_) return;
    const Graph forward = make_graph_to_cut(experiment, data);
    cut_ = cut_into_stages(forward, experiment.parallel);
    layers_ = cut_.layers_of(forward, static_cast<std::int32_t>(ranks_.stage()), num_stages());
    if (num_stages() == 1) return;
    messages_ = stage_messages(forward, cut_, num_stages());
    parameter_stages_ = stages_of_parameters(forward, cut_, num_stages());
  }

  bool are_on() const { return is_on_; }
  const StageCut& cut() const { return cut_; }
  const std::vector<std::pair<LayerId, LayerId>>& layers() const { return layers_; }
  const std::vector<StageMessage>& messages() const { return messages_; }
  const std::vector<std::vector<std::int32_t>>& parameter_stages() const { return parameter_stages_; }
  PipelineShape shape(PipelineOrder order) const {
    return {.num_stages = num_stages(), .num_chunks = cut_.num_chunks(), .num_micro_batches = 0, .order = order};
  }

  /// Whether this rank's stage reads a field of a forward pass.
  bool reads(const Graph& forward, ValueId field) const {
    return !is_on_ || std::any_of(forward.nodes.begin(), forward.nodes.end(), [&](const GraphNode& node) {
      return cut_.chunk_of(node.layer) % num_stages() == ranks_.stage() &&
             std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId input) { return root_of(forward, input) == root_of(forward, field); });
    });
  }
  /// Leaves this rank's stage in a forward pass.
  void keep_own(Graph& forward) const {
    if (is_on_) keep_stage(forward, cut_, stage_messages(forward, cut_, num_stages()), ranks_);
  }

 private:
  std::int32_t num_stages() const { return static_cast<std::int32_t>(ranks_.num_stages); }

  const RankLayout ranks_;
  const bool is_on_;
  StageCut cut_;
  std::vector<std::pair<LayerId, LayerId>> layers_;  ///< as PipelineSteps has them
  std::vector<StageMessage> messages_;
  std::vector<std::vector<std::int32_t>> parameter_stages_;  ///< as Program has them
};

/// Takes over what all graphs have alike, and lays out the persistent buffers.
void adopt_model(Program& program, Scheduler& scheduler, const Experiment& experiment, const Graph& graph) {
  program.layers = graph.layers;
  program.parameters = graph.parameters;
  program.parameter_cuts = graph.parameter_cuts;
  program.gradient_terms = graph.gradient_terms;
  program.loss_parts = graph.loss_parts;
  program.frozen_networks = graph.frozen_networks;
  const auto add_persistent = [&](std::string name, const Value& value) {
    const BufferId buffer = scheduler.add_buffer(std::move(name), value.layer, value.category, value.type);
    program.load.instructions.push_back({Kind::allocate, buffer, value.layer, Phase::load});
    return buffer;
  };
  const Sharding sharding(experiment);
  bool trains = false;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    const ValueId copy_value = graph.parameter_copies[p];
    const Value& value = graph.values[graph.parameter_values[p]];
    // A bias that another rank of the layer has alone has a copy there.
    const bool is_elsewhere = !graph.parameter_cuts.empty() && graph.parameter_cuts[p] &&
                              graph.parameter_cuts[p]->sections.empty() && program.ranks.tensor_place() > 0;
    const bool has_copy = copy_value >= 0 || (experiment.train.amp != Amp::off && is_elsewhere);
    program.parameter_buffers.push_back(add_kept(program, scheduler, p, parameter.name, value.category,
                                                 {value.type.dtype, parameter.type.shape},
                                                 sharding.cuts_weight(parameter, has_copy)));
    BufferId copy = -1;
    if (copy_value >= 0 && program.holds(p)) {
      const Value& info = graph.values[copy_value];
      copy = add_kept(program, scheduler, p, graph.layers[info.layer].path + "." + info.role, info.category,
                      {info.type.dtype, parameter.type.shape}, sharding.cuts_copy(parameter));
    }
    program.copy_buffers.push_back(copy);
    trains = trains || parameter.trainable;
  }
  if (!trains && !experiment.freeze.entries.empty())
    throw located_error(experiment.freeze.location, "'freeze' leaves no parameters to train",
                        "a layer with parameters that is trained: '!fc' behind the others, such as [\"*\", \"!fc\"]");
  if (!trains) throw ConfigError("the model has no parameters to train: add a linear or conv2d layer to model.layers");
  append_optimizer_state(program, scheduler, experiment);
  append_averages(program, scheduler, experiment, graph);
  program.loss_statistics = add_persistent("loss.statistics", graph.values[graph.loss_statistics]);
  if (graph.metric_counts >= 0)
    program.metric_counts = add_persistent("metrics.counts", graph.values[graph.metric_counts]);
  if (graph.loss_scale >= 0) program.loss_scale = add_persistent("loss.scale", graph.values[graph.loss_scale]);
  program.refresh.name = "refresh";
  program.start_averages.name = "start averages";
  program.lend_averages.name = "lend averages";
  append_copies(program, scheduler, program.parameter_buffers, program.refresh, Phase::load);
}

/// Of a field's staging buffer, for the largest batch that the run will meet.
TensorType staged_type(const Graph& graph, ValueId field, const RunSchedule& schedule) {
  TensorType type = graph.values[field].type;
  type.shape = type.shape.with_batch(std::max(schedule.own_batch_size(), schedule.own_eval_batch_size()));
  return type;
}

/// In what order each rank's steps run, where their ops communicate (Note [Sharded models] in sharding.h): that of rank
/// 0, which holds most.
class SharedOrder {
 public:
  SharedOrder(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
              RecomputeOptions options) {
    Experiment of_first = experiment;
    const RankLayout ranks = rank_layout(experiment.parallel);
    of_first.parallel.rank = ranks.stage_group().first;  // with the largest parts of each batch and of layers
    const TrainingGraph training = make_training_graph(of_first, data, device);
    options.persistent_bytes = training.persistent_bytes;
    const RunSchedule schedule(of_first, data);
    if (device.copies_ahead())
      for (const ValueId field : training.graph.fields())
        options.persistent_bytes += round_to_blocks(staged_type(training.graph, field, schedule).num_bytes());
    order_ = recompute_order(training.graph, device, options);
    for (const GraphNode& node : training.graph.nodes) nodes_.push_back(kind_of(node));
  }

  void apply(Graph& graph) const {
    std::vector<std::int32_t> place_of(nodes_.size(), -1);  // of the first's nodes among the graph's
    std::size_t place = 0;
    for (std::size_t n = 0; n < nodes_.size() && place < graph.nodes.size(); ++n)
      if (kind_of(graph.nodes[place]) == nodes_[n]) place_of[n] = static_cast<std::int32_t>(place++);
    require_internal(place == graph.nodes.size(), "a model is made of the same ops on every rank");
    std::vector<std::int32_t> order;
    for (const std::int32_t n : order_)
      if (place_of[n] >= 0) order.push_back(place_of[n]);
    if (!order.empty()) apply_order(graph, order);
  }

 private:
  /// Ranks that share a layer have the same ops in the same order, but for those of a bias that the first has alone.
  using NodeKind = std::tuple<OpKind, LayerId, Phase>;
  static NodeKind kind_of(const GraphNode& node) { return {node.op.kind, node.layer, node.phase}; }

  std::vector<std::int32_t> order_;
  std::vector<NodeKind> nodes_;
};

/// Blocks of what `load` allocates.
std::int64_t persistent_bytes(const Program& program) {
  std::int64_t num_bytes = 0;
  for (const Instruction& instruction : program.load.instructions)
    num_bytes += round_to_blocks(program.buffers[instruction.index].num_bytes);
  return num_bytes;
}

/// A persistent buffer for the next batch's `value`.
BufferId add_staging(Program& program, Scheduler& scheduler, const Graph& graph, ValueId value,
                     const RunSchedule& schedule) {
  const Value& info = graph.values[value];
  const TensorType type = staged_type(graph, value, schedule);
  const BufferId buffer = scheduler.add_buffer(graph.layers[info.layer].path + "." + info.role + ".staged", info.layer,
                                               info.category, type);
  program.load.instructions.push_back({Kind::allocate, buffer, info.layer, Phase::load});
  return buffer;
}

}  // namespace

Graph make_evaluation_graph(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size,
                            const DeviceModel& device, const PrecisionOptions& precision) {
  return complete_evaluation(make_forward_graph(experiment, data, batch_size, GraphMode::evaluation, precision),
                             experiment, device);
}

Graph make_training_forward(const Experiment& experiment, const DataDescription& data, std::int64_t num_samples) {
  return make_forward_graph(experiment, data, num_samples, GraphMode::training);
}

Graph make_graph_to_cut(const Experiment& experiment, const DataDescription& data) {
  // Of the rank whose micro-batches are largest, and of ranks that share layers, which all have one cut, the first.
  const RunSchedule schedule(experiment, data);
  const RankLayout ranks = rank_layout(experiment.parallel);
  Experiment of_first = experiment;
  of_first.parallel.rank -= ranks.tensor_place();
  return make_training_forward(of_first, data, schedule.largest_pass_size());
}

Program compile(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                RecomputeFronts* fronts) {
  return *compile_while(experiment, data, device, fronts, [](const Program&) { return true; });
}

std::optional<Program> compile_while(const Experiment& experiment, const DataDescription& data,
                                     const DeviceModel& device, RecomputeFronts* fronts,
                                     const std::function<bool(const Program&)>& goes_on) {
  check_run(experiment, data);
  if (Sharding(experiment).is_on() && !experiment.memory.master_weights && device.kind() == "cuda")
    throw ConfigError(
        "GPUs do not round parts of 16-bit weights yet: set parallel.shard: none, or memory.master_weights: true");
  const RunSchedule schedule(experiment, data);
  Program program;
  program.load.name = "load";
  program.ranks = rank_layout(experiment.parallel);
  Scheduler scheduler(program, device, experiment.memory.in_place);
  scheduler.set_gradient_sums(gradient_sums(experiment, schedule));
  RecomputeOptions recompute{.checkpointing = &experiment.train.checkpointing,
                             .cheap = experiment.memory.recompute_cheap,
                             .in_place = experiment.memory.in_place,
                             .accumulates = schedule.accumulates() || is_pipelined(experiment.parallel),
                             .updates_in_backward = experiment.memory.update == UpdatePlace::in_backward,
                             .fronts = fronts};

  std::optional<SharedOrder> shared_order;
  recompute.gathers_weights = Sharding(experiment).gathers_weights();
  const bool shares_norms = experiment.parallel.sync_batchnorm && experiment.parallel.data > 1;
  if (recompute.gathers_weights || shares_norms || experiment.parallel.tensor > 1)
    shared_order.emplace(experiment, data, device, recompute);
  const Stages stages(experiment, data);
  program.parameter_stages = stages.parameter_stages();
  /// A micro-batch of so many samples, after all passes.
  const auto training_graph = [&](std::int64_t batch_size) {
    Graph graph = make_forward_graph(experiment, data, batch_size, GraphMode::training);
    if (program.layers.empty()) {
      check_shared_norms(graph, schedule.odd_batch_size());
      adopt_model(program, scheduler, experiment, graph);
      if (device.copies_ahead())
        for (const ValueId field : graph.fields())
          program.staged_fields.push_back(
              stages.reads(graph, field) ? add_staging(program, scheduler, graph, field, schedule) : -1);
      add_part_statistics(program, scheduler, schedule);
      recompute.persistent_bytes = persistent_bytes(program);
      if (recompute.updates_in_backward) {
        scheduler.update_in_backward([&](Routine& routine, std::span<const std::int32_t> parameters) {
          append_update(program, scheduler, experiment, routine, -1, parameters);
        });
      }
    }
    stages.keep_own(graph);
    graph = complete_graph(std::move(graph), experiment, device, schedule.largest_pass_size());
    if (shared_order)
      shared_order->apply(graph);
    else
      apply_recompute(graph, device, recompute);
    fuse_residuals(graph, experiment.memory.in_place);
    place_concatenated(graph, experiment.memory.in_place);
    apply_offload(graph, {.patterns = experiment.memory.offload, .location = experiment.memory.offload_location});
    return graph;
  };
  std::vector<std::int64_t> batch_sizes =
      schedule.pass_sizes(std::array{schedule.batch_size(), schedule.odd_batch_size()});
  if (stages.are_on()) {
    const PipelineShape shape = stages.shape(experiment.parallel.schedule);
    add_pipeline_steps(program, scheduler, schedule, shape, stages.cut(), stages.messages(),
                       experiment.parallel.overlap, [&](std::int64_t batch_size) {
                         StageNodes nodes{training_graph(batch_size)};
                         if (shape.splits_backward()) nodes.num_deferred = defer_weight_gradients(nodes.graph);
                         return nodes;
                       });
    program.pipeline->layers = stages.layers();
    batch_sizes.clear();
    if (!goes_on(program)) return std::nullopt;
  }
  for (const std::int64_t batch_size : batch_sizes) {
    if (batch_size == 0) break;
    Graph graph = training_graph(batch_size);
    const char* const other_size = schedule.is_cut_into_parts() ? ", smaller part" : ", odd last batch";
    const std::string suffix = batch_size == batch_sizes.front() ? "" : other_size;
    Program::MicroBatch micro_batch;
    micro_batch.batch_size = batch_size;
    micro_batch.first = scheduler.schedule_training(graph, first_pass(), "train" + suffix);
    if (schedule.accumulates())
      micro_batch.next = scheduler.schedule_training(graph, next_pass(schedule), "train, accumulating" + suffix);
    if (schedule.parts().num_own > 1) leave_running_statistics(graph);
    for (std::int64_t depth = 1, parts = 2; parts <= schedule.parts().num_own; ++depth, parts *= 2)
      micro_batch.others.push_back(scheduler.schedule_training(graph, other_pass(static_cast<std::size_t>(depth)),
                                                               "train a further part" + suffix));
    program.micro_batches.push_back(std::move(micro_batch));
    if (program.micro_batches.size() == 1 && !goes_on(program)) return std::nullopt;
  }
  if (!batch_sizes.empty() && batch_sizes.back() == 0)
    program.micro_batches.push_back(schedule_empty_micro_batch(program, scheduler, schedule));
  add_part_sums(program, scheduler, schedule);
  program.update = schedule_update(program, scheduler, experiment);

  const auto evaluation_graph = [&](std::int64_t batch_size) {
    Graph graph = make_forward_graph(experiment, data, batch_size, GraphMode::evaluation);
    stages.keep_own(graph);
    return complete_evaluation(std::move(graph), experiment, device);
  };
  const std::int64_t whole_eval = schedule.num_whole_eval_batches() > 0 ? schedule.eval_batch_size() : 0;
  for (const std::int64_t batch_size : schedule.pass_sizes(std::array{whole_eval, schedule.odd_eval_batch_size()})) {
    if (batch_size == 0) break;
    const Graph graph = evaluation_graph(batch_size);
    const bool is_whole = batch_size == schedule.own_eval_batch_size();
    program.evaluations.push_back(
        scheduler.schedule_evaluation(graph, is_whole ? "evaluate" : "evaluate, odd last batch"));
  }
  if (Sharding(experiment).is_on() && schedule.lacks_evaluated_samples()) {
    Routine with_samples;
    if (!program.evaluations.empty()) {
      with_samples = program.evaluations.front();
    } else {
      const Graph graph = evaluation_graph(1);
      with_samples = scheduler.schedule_evaluation(graph, "");
    }
    Routine routine = schedule_without_samples(program, scheduler, with_samples, "evaluate, without samples");
    if (!routine.instructions.empty()) program.evaluations.push_back(std::move(routine));
  }
  program.share_statistics = schedule_shared_statistics(program, scheduler);
  if (schedule.evaluates()) program.agree_evaluation = schedule_agreement(program, scheduler);
  if (experiment.memory.allocator == AllocatorKind::planned) {
    if (experiment.memory.places.batch_size > 0)
      place_as_lent(program, experiment, data, device);
    else
      place(program);
  }
  return program;
}

TrainingGraph make_training_graph(const Experiment& experiment, const DataDescription& data,
                                  const DeviceModel& device) {
  const RunSchedule schedule(experiment, data);
  const Stages stages(experiment, data);
  Graph graph = make_forward_graph(experiment, data, schedule.own_batch_size(), GraphMode::training);
  Program program;
  program.ranks = rank_layout(experiment.parallel);
  program.parameter_stages = stages.parameter_stages();
  Scheduler scheduler(program, device, experiment.memory.in_place);
  adopt_model(program, scheduler, experiment, graph);
  stages.keep_own(graph);
  return {complete_graph(std::move(graph), experiment, device, schedule.largest_pass_size()),
          persistent_bytes(program)};
}

std::vector<TensorType> types_of(const Program& program, std::span<const BufferId> buffers) {
  std::vector<TensorType> types;
  types.reserve(buffers.size());
  for (const BufferId buffer : buffers) types.push_back(program.buffers[static_cast<std::size_t>(buffer)].type);
  return types;
}

bool has_parts(const Program& program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const Buffer& buffer) { return buffer.part.has_value(); });
}

std::vector<char> persistent_buffers(const Program& program) {
  std::vector<char> is_persistent(program.buffers.size(), 0);
  for_each_change(program.load,
                  [&](BufferId buffer, bool is_allocated) { is_persistent[buffer] = is_allocated ? 1 : 0; });
  return is_persistent;
}

std::string Program::layer_label(LayerId layer) const {
  if (layer == no_layer) return "optimizer";
  return layers[layer].path + " (" + layers[layer].kind + ")";
}

}  // namespace trainer
