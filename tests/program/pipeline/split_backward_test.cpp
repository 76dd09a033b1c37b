#include "engine/program/pipeline/split_backward.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"
#include "engine/program/concat_placement.h"
#include "engine/program/recompute/recompute.h"
#include "engine/program/residual_fusion.h"
#include "tests/device/described_device.h"
#include "tests/program/pipeline/cut_models.h"

// Backward passes in two parts.

using namespace trainer;

namespace {

/// By node that has run: for each input the number of the node that wrote it last; −1: none. And for each value the
/// same at the end.
struct WritersRead {
  std::vector<std::vector<std::int64_t>> of_nodes;
  std::vector<std::int64_t> at_end;
};

/// `numbers`: of the nodes, in the order in which they stand.
WritersRead writers_read(const Graph& graph, const std::vector<std::size_t>& numbers) {
  WritersRead read{.of_nodes = std::vector<std::vector<std::int64_t>>(graph.nodes.size()),
                   .at_end = std::vector<std::int64_t>(graph.values.size(), -1)};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    for (const ValueId input : node.inputs) read.of_nodes[numbers[n]].push_back(read.at_end[root_of(graph, input)]);
    const auto writes = [&](ValueId value) { read.at_end[root_of(graph, value)] = static_cast<int>(numbers[n]); };
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (may_modify_input(node.op, static_cast<int>(i))) writes(node.inputs[i]);
    for (const ValueId output : node.outputs) writes(output);
  }
  return read;
}

struct SplitCounts {
  std::size_t deferred = 0;
  int weight_gradients = 0, left = 0;  ///< of the role, in all and of those that stay in their place
};

/// Splits a backward pass; every node must read what it read before.
SplitCounts check_split(Graph graph) {
  const Graph before = graph;
  SplitCounts counts{.deferred = defer_weight_gradients(graph)};
  REQUIRE(graph.nodes.size() == before.nodes.size());
  std::vector<std::size_t> in_order(before.nodes.size()), numbers;
  std::map<NodeKey, std::vector<std::size_t>> places;  // of nodes that are alike the last one first
  for (std::size_t n = before.nodes.size(); n-- > 0;) {
    places[key_of(before.nodes[n])].push_back(n);
    in_order[n] = n;
  }
  for (const GraphNode& node : graph.nodes) {
    std::vector<std::size_t>& alike = places[key_of(node)];
    REQUIRE(!alike.empty());
    CHECK(node.op == before.nodes[alike.back()].op);
    numbers.push_back(alike.back());
    alike.pop_back();
  }
  const WritersRead old_reads = writers_read(before, in_order), new_reads = writers_read(graph, numbers);
  CHECK(old_reads.of_nodes == new_reads.of_nodes);
  CHECK(old_reads.at_end == new_reads.at_end);
  const auto first_late = numbers.end() - static_cast<std::ptrdiff_t>(counts.deferred);
  CHECK(std::is_sorted(numbers.begin(), first_late));
  CHECK(std::is_sorted(first_late, numbers.end()));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (definition_of(graph.nodes[n].op.kind).role != Role::weight_gradient) continue;
    ++counts.weight_gradients;
    counts.left += n < graph.nodes.size() - counts.deferred ? 1 : 0;
  }
  return counts;
}

/// A training pass of a stage as it is scheduled.
Graph trained_stage(const CutModel& model, const std::string& more, std::int64_t num_stages, std::int64_t rank) {
  Experiment experiment = parse_experiment(model.yaml + more, "test.yaml");
  experiment.parallel.pipeline = num_stages;
  experiment.parallel.schedule = PipelineOrder::zero_bubble;
  experiment.parallel.micro_batches = 2;
  experiment.parallel.rank = rank;
  const DescribedDevice device;
  Graph graph = make_training_graph(experiment, model.data, device).graph;
  apply_recompute(graph, device, {.checkpointing = &experiment.train.checkpointing, .accumulates = true});
  fuse_residuals(graph, true);
  place_concatenated(graph, true);
  return graph;
}

/// Nodes that read, make and write over values at random; some make gradients of weights.
Graph random_nodes(std::mt19937& random) {
  Graph graph;
  const TensorType type{DType::f32, Shape{4}};
  std::vector<ValueId> there;
  const auto add_value = [&](ValueId view_of) {
    Value value;
    value.type = type;
    value.view_of = view_of;
    graph.values.push_back(value);
    there.push_back(static_cast<ValueId>(graph.values.size()) - 1);
    return there.back();
  };
  const auto any = [&] { return there[random() % there.size()]; };
  for (int i = 0; i < 3; ++i) add_value(-1);
  const std::uint32_t num_nodes = 1 + random() % 24, one_in = 1 + random() % 6;
  for (std::uint32_t n = 0; n < num_nodes; ++n) {
    GraphNode node;
    node.layer = static_cast<LayerId>(n);
    node.phase = Phase::backward;
    const std::uint32_t kind = random() % 6;
    if (random() % one_in == 0) {  // writes over what it reads
      node.op = {OpKind::fill_zero, {}, {type}, {}};
      node.inputs = {any()};
    } else if (kind < 3) {
      node.op = {OpKind::sum_rows, {}, {type}, {type}};
      node.inputs = {any()};
    } else {
      node.op = {OpKind::add, AddAttributes{}, {type, type}, {type}};
      node.inputs = {any(), any()};
    }
    if (!node.op.outputs.empty()) node.outputs = {add_value(-1)};
    if (random() % 5 == 0) add_value(any());
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

}  // namespace

TEST_CASE("gradients of weights are made behind what stages wait for, of what they were made of before") {
  SplitCounts all;
  std::vector<CutModel> models = models_to_cut();
  models.push_back(images_to_cut(
      "{conv2d: {out: 8, kernel: 3, padding: 1}}, batchnorm2d, {residual: {layers: [{conv2d: {out: 8, kernel: 3, "
      "padding: 1}}, batchnorm2d, relu]}}, relu, {residual: {layers: [{groupnorm: {groups: 2}}, silu]}}, flatten, "
      "{dropout: {p: 0.2}}, {linear: {out: 10}}"));
  for (const CutModel& model : models)
    for (const std::string more : {"", "memory: {recompute_cheap: false}\n", "optimizer: {type: adamw}\n"})
      for (const std::string train : {"", "amp: bf16", "checkpointing: sqrt", "amp: fp16, checkpointing: sqrt"})
        for (const std::int64_t num_stages : {1, 2, 3})
          for (std::int64_t rank = 0; rank < num_stages; ++rank) {
            const CutModel changed = trained_with(model, train);
            INFO(changed.yaml << more << num_stages << " stages, rank " << rank);
            const SplitCounts counts = check_split(trained_stage(changed, more, num_stages, rank));
            all.deferred += counts.deferred;
            all.weight_gradients += counts.weight_gradients;
            all.left += counts.left;
          }
  CHECK(all.weight_gradients > 0);
  CHECK(all.left * 20 <= all.weight_gradients);
}

TEST_CASE("all gradients of weights of products wait, and nothing that is sent waits for them") {
  const std::string layers =
      "{linear: {out: 16}}, gelu, {linear: {out: 16}}, gelu, {linear: {out: 16}}, gelu, {linear: {out: 10}}";
  for (const std::int64_t rank : {0, 1}) {
    Graph graph = trained_stage(numbers_to_cut(layers), "", 2, rank);
    const SplitCounts counts = check_split(graph);
    CHECK(counts.weight_gradients > 0);
    CHECK(counts.left == 0);
    const std::size_t num_deferred = defer_weight_gradients(graph);
    for (std::size_t n = graph.nodes.size() - num_deferred; n < graph.nodes.size(); ++n)
      CHECK_FALSE(sends_or_receives(graph.nodes[n]));
  }
}

TEST_CASE("whatever nodes read and write over, deferring some changes nothing that is read") {
  std::mt19937 random(7);
  std::size_t num_deferred = 0;
  int num_left = 0;
  for (int i = 0; i < 4000; ++i) {
    INFO("graph " << i);
    const SplitCounts counts = check_split(random_nodes(random));
    num_deferred += counts.deferred;
    num_left += counts.left;
  }
  CHECK(num_deferred > 0);
  CHECK(num_left > 0);
}
