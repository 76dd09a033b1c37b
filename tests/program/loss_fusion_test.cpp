#include <catch2/catch.hpp>

#include <algorithm>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/fusion.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

DataDescription pixels() {
  DataDescription data = described_data({8, 8, 3}, 4, 64, 16);
  data.target = {DType::i32, Shape{8, 8}};
  return data;
}

Graph differentiated(const std::string& loss) {
  const Experiment experiment =
      parse_experiment("model: {layers: [{conv2d: {out: 4, kernel: 3, padding: 1}}]}\nloss: " + loss + "\n", "a.yaml");
  Graph graph = build_graph(experiment, pixels(), 2, GraphMode::training);
  differentiate(graph);
  return graph;
}

std::int64_t num_of(const Graph& graph, OpKind kind) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const GraphNode& node) { return node.op.kind == kind; });
}

}  // namespace

TEST_CASE("every cross-entropy of a sum is one op with its gradient, whichever terms stand beside it") {
  for (const auto& [loss, num_fused] : {std::pair{"cross_entropy", 1},
                                        {"[dice, cross_entropy]", 1},
                                        {"[cross_entropy, dice]", 1},
                                        {"dice", 0},
                                        {"[cross_entropy, dice, {cross_entropy: {label_smoothing: 0.1}}]", 2}}) {
    INFO(loss);
    Graph graph = differentiated(loss);
    fuse_loss_gradient(graph);
    CHECK(num_of(graph, OpKind::cross_entropy_with_gradient) == num_fused);
    CHECK(num_of(graph, OpKind::cross_entropy) == 0);
    CHECK(num_of(graph, OpKind::cross_entropy_backward) == 0);
  }
}

TEST_CASE("what evaluations count in is held from the start, named, and no step writes it") {
  const Experiment experiment =
      parse_experiment("model: {layers: [{conv2d: {out: 4, kernel: 3, padding: 1}}]}\n", "a.yaml");
  const DescribedDevice device;
  const Program program = compile(experiment, pixels(), device);
  REQUIRE(program.metric_counts >= 0);
  CHECK(program.buffers[program.metric_counts].name == "metrics.counts");
  CHECK(program.buffers[program.metric_counts].num_bytes == 4 * 4 * 8);
  CHECK(persistent_buffers(program)[static_cast<std::size_t>(program.metric_counts)] == 1);
  const auto uses = [&](const Routine& routine) {
    return std::any_of(routine.instructions.begin(), routine.instructions.end(), [&](const Instruction& instruction) {
      if (instruction.kind != Instruction::Kind::run) return false;
      const std::vector<BufferId>& inputs = program.calls[static_cast<std::size_t>(instruction.index)].inputs;
      return std::find(inputs.begin(), inputs.end(), program.metric_counts) != inputs.end();
    });
  };
  CHECK(uses(program.evaluations.front()));
  CHECK_FALSE(uses(program.micro_batches.front().first));
  CHECK_FALSE(uses(program.update));
}
