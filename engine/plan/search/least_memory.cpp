#include "engine/plan/search/least_memory.h"

#include <algorithm>
#include <vector>

#include "engine/memory/rounding.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"

namespace trainer {
namespace {

class LeastLives {
 public:
  LeastLives(const Graph& graph, const Experiment& experiment)
      : graph_(graph), experiment_(experiment), lives_(graph.values.size()), grows_(graph.nodes.size() + 2, 0) {
    using Type = CheckpointingConfig::Type;
    keeps_all_ = experiment.train.checkpointing.type == Type::off && experiment.memory.offload.empty();
    find_lives();
  }

  /// The most that lives at once, beside what is persistent.
  std::int64_t most_bytes(bool accumulates) {
    const ParallelConfig& parallel = experiment_.parallel;
    const bool shares_gradients = parallel.data > 1 && parallel.shard >= Shard::gradients;
    const bool holds_gradients = experiment_.memory.update != UpdatePlace::in_backward && !shares_gradients;
    std::int64_t sums = 0;
    for (const ValueId parameter_gradient : graph_.parameter_gradients) {
      if (parameter_gradient < 0) continue;
      const ValueId gradient = root(parameter_gradient);
      if (accumulates && !shares_gradients) sums += bytes_of(gradient);
      if (holds_gradients && !accumulates) lives_[gradient].last = end();
    }
    for (std::size_t v = 0; v < lives_.size(); ++v) {
      const Life& life = lives_[v];
      if (!life.is_counted || life.last < life.begin) continue;
      grows_[life.begin] += bytes_of(static_cast<ValueId>(v));
      grows_[life.last + 1] -= bytes_of(static_cast<ValueId>(v));
    }
    std::int64_t live = sums, most = sums;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      live += grows_[n];
      most = std::max(most, live + bytes_beside(static_cast<std::int64_t>(n)));
    }
    return std::max(most, live + grows_[graph_.nodes.size()]);
  }

 private:
  struct Life {
    std::int64_t begin = 0, last = -1;  ///< nodes; begin: the one behind its maker
    bool is_counted = false;
    bool is_persistent = false;
  };

  std::int64_t end() const { return static_cast<std::int64_t>(graph_.nodes.size()); }
  std::int64_t bytes_of(ValueId value) const { return round_to_blocks(graph_.values[value].type.num_bytes()); }
  ValueId root(ValueId value) const {
    while (graph_.values[value].view_of >= 0) value = graph_.values[value].view_of;
    return value;
  }

  /// Whether what a node makes lives from then until its last reader, whatever is computed again.
  bool stays(const GraphNode& node) const {
    if (node.phase != Phase::forward) return true;
    const bool may_rerun = experiment_.memory.recompute_cheap && definition_of(node.op.kind).is_cheap;
    return keeps_all_ && !may_rerun;
  }

  void find_lives() {
    for (std::size_t v = 0; v < lives_.size(); ++v) lives_[v].is_persistent = graph_.values[v].parameter >= 0;
    for (const ValueId given : {graph_.loss_statistics, graph_.metric_counts, graph_.loss_scale})
      if (given >= 0) lives_[given].is_persistent = true;
    for (const ValueId field : graph_.fields()) lives_[field].is_counted = true;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      for (const ValueId input : node.inputs) lives_[root(input)].last = static_cast<std::int64_t>(n);
      for (const ValueId output : node.outputs) {
        Life& life = lives_[output];
        if (life.is_persistent || graph_.values[output].view_of >= 0) continue;
        life.begin = static_cast<std::int64_t>(n) + 1;
        life.is_counted = stays(node);
      }
    }
  }

  /// What node `n` needs beside the lives that are counted.
  std::int64_t bytes_beside(std::int64_t n) const {
    const GraphNode& node = graph_.nodes[n];
    std::int64_t bytes = 0;
    std::vector<ValueId> read;
    for (const ValueId input : node.inputs) {
      const ValueId value = root(input);
      if (lives_[value].is_persistent || lives_[value].is_counted) continue;
      if (std::find(read.begin(), read.end(), value) != read.end()) continue;
      read.push_back(value);
      bytes += bytes_of(value);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto rules = in_place_rules(node.op);
      const bool may_take_over = std::any_of(rules.begin(), rules.end(),
                                             [&](const InPlace& rule) { return rule.output == static_cast<int>(i); });
      const ValueId output = node.outputs[i];
      if (!may_take_over && !lives_[output].is_persistent && graph_.values[output].view_of < 0)
        bytes += bytes_of(output);
    }
    return bytes;
  }

  const Graph& graph_;
  const Experiment& experiment_;
  std::vector<Life> lives_;          // by value
  std::vector<std::int64_t> grows_;  // by node: by how much more is live than before it
  bool keeps_all_ = false;
};

}  // namespace

std::int64_t least_memory(const Experiment& experiment, const DataDescription& data, const DeviceModel& device) {
  const RunSchedule schedule(experiment, data);
  const TrainingGraph training = make_training_graph(experiment, data, device);
  std::int64_t bytes = training.persistent_bytes;
  if (device.copies_ahead()) {
    const std::int64_t samples = std::max(schedule.own_batch_size(), schedule.own_eval_batch_size());
    for (const ValueId staged : training.graph.fields()) {
      TensorType type = training.graph.values[staged].type;
      type.shape = type.shape.with_batch(samples);
      bytes += round_to_blocks(type.num_bytes());
    }
  }
  if (schedule.total_steps() < 1) return bytes;
  LeastLives lives(training.graph, experiment);
  const bool holds_sums = schedule.step(1).num_micro_batches - (schedule.step(1).last_is_odd ? 1 : 0) > 1;
  return bytes + lives.most_bytes(holds_sums);
}

}  // namespace trainer
