#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/precision.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;

namespace {

/// Sequences of 7 tokens of a vocabulary of 11.
DataDescription token_data() {
  DataDescription data = described_data({7}, 11, 64);
  data.inputs[0].type = {DType::i32, {7}};
  data.target = {DType::i32, {7}};
  return data;
}

Experiment token_experiment(const std::string& head, const std::string& more, const std::string& between = "") {
  return parse_experiment(
      "data: {type: synthetic, shape: [7], classes: 11, samples: 64}\n"
      "model: {layers: [{embedding: {num: 11, dim: 4, name: wte}}" +
          between + ", {linear: {out: 11, bias: false" + head + "}}]}\n" + more,
      "test.yaml");
}

Program token_program(const std::string& head, const std::string& more) {
  return compile(token_experiment(head, more), token_data(), DescribedDevice());
}

const GraphNode& node_of_kind(const Graph& graph, OpKind kind) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) { return node.op.kind == kind; });
  REQUIRE(found != graph.nodes.end());
  return *found;
}

/// Calls of embedding_backward in a routine.
std::vector<const OpCall*> row_gradients(const Program& program, const Routine& routine) {
  std::vector<const OpCall*> calls;
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind == Instruction::Kind::run)
      if (const OpCall& call = program.calls[instruction.index]; call.op.kind == OpKind::embedding_backward)
        calls.push_back(&call);
  return calls;
}

std::int64_t num_allocated(const Program& program, const Routine& routine, const std::string& name) {
  return std::count_if(routine.instructions.begin(), routine.instructions.end(), [&](const Instruction& each) {
    return each.kind == Instruction::Kind::allocate && program.buffers[each.index].name.starts_with(name);
  });
}

}  // namespace

TEST_CASE("micro-batches add their rows' gradients to those that are there, without a buffer of their own") {
  const Program program =
      token_program("", "train: {batch_size: 8, accumulation_steps: 2}\nmemory: {chunked_loss: 0}\n");
  const auto& [first, next] = std::tie(program.micro_batches[0].first, program.micro_batches[0].next);
  REQUIRE(row_gradients(program, first).size() == 1);
  REQUIRE(row_gradients(program, next).size() == 1);
  const OpCall &makes = *row_gradients(program, first)[0], &adds = *row_gradients(program, next)[0];
  CHECK(attributes_of<EmbeddingAttributes>(adds.op).adds);
  CHECK(adds.inputs.back() == makes.outputs[0]);
  CHECK(num_allocated(program, first, "wte.weight.grad") == 1);
  CHECK(num_allocated(program, next, "wte.weight.grad") == 0);
}

TEST_CASE("a head and the embedding whose weight it shares have one gradient in one buffer") {
  for (const std::string update : {"at_end", "in_backward"}) {
    const Program program =
        token_program(", share: wte", "train: {batch_size: 8}\nmemory: {update: " + update + ", chunked_loss: 0}\n");
    const Routine& first = program.micro_batches[0].first;
    REQUIRE(row_gradients(program, first).size() == 1);
    const OpCall& adds = *row_gradients(program, first)[0];
    CHECK(attributes_of<EmbeddingAttributes>(adds.op).adds);
    CHECK(program.buffers[adds.inputs.back()].name == "wte.weight.grad");
    CHECK(program.buffers[adds.inputs.back()].category == Category::gradient);
    CHECK(num_allocated(program, first, "wte.weight.grad") + num_allocated(program, first, "1.weight.grad") == 1);
    // What updates the weight comes behind what adds to its gradient.
    const auto place_of = [&](OpKind kind, const Routine& routine) {
      const auto found = std::find_if(routine.instructions.begin(), routine.instructions.end(), [&](const auto& each) {
        return each.kind == Instruction::Kind::run && program.calls[each.index].op.kind == kind;
      });
      return found == routine.instructions.end() ? -1 : found - routine.instructions.begin();
    };
    const auto of_update = place_of(OpKind::sgd_update, first);
    if (update == "in_backward")
      CHECK(of_update > place_of(OpKind::embedding_backward, first));
    else
      CHECK(of_update == -1);
  }
}

TEST_CASE("micro-batches add a head's and its embedding's gradients to one that is kept") {
  const Program program =
      token_program(", share: wte", "train: {batch_size: 8, accumulation_steps: 2}\nmemory: {chunked_loss: 0}\n");
  const Routine& next = program.micro_batches[0].next;
  const OpCall& first = *row_gradients(program, program.micro_batches[0].first)[0];
  REQUIRE(row_gradients(program, next).size() == 1);
  CHECK(row_gradients(program, next)[0]->inputs.back() == first.inputs.back());
  LiveProgram live(program);
  live.walk(program.load);
  const std::set<BufferId> persistent = live.live();
  for (const Routine* routine : {&program.micro_batches[0].first, &next, &program.update}) live.walk(*routine);
  CHECK(live.live() == persistent);
}

TEST_CASE("an embedding reads the weight that there is in mixed precision, and gives 16 bits") {
  for (const bool is_tied : {false, true})
    for (const bool masters : {false, true})
      for (const bool f32_gradients : {false, true}) {
        INFO(is_tied << masters << f32_gradients);
        Graph graph =
            build_graph(token_experiment(is_tied ? ", share: wte" : "", "", ", {position_embedding: {length: 9}}"),
                        token_data(), 2, GraphMode::training);
        apply_precision(graph, {.type = DType::bf16, .master_weights = masters, .f32_gradients = f32_gradients});
        differentiate(graph);
        const GraphNode& rows = node_of_kind(graph, OpKind::embedding);
        CHECK(rows.op.outputs[0].dtype == DType::bf16);
        CHECK(rows.op.inputs[1].dtype == (masters && !is_tied ? DType::f32 : DType::bf16));
        CHECK(graph.values[rows.inputs[1]].type == rows.op.inputs[1]);
        CHECK((graph.parameter_copies[0] >= 0) == (masters && is_tied));
        const TensorType& gradient = graph.values[graph.parameter_gradients[0]].type;
        CHECK(gradient.dtype == (f32_gradients ? DType::f32 : DType::bf16));
        CHECK(node_of_kind(graph, OpKind::embedding_backward).outputs.empty() == is_tied);
        CHECK(node_of_kind(graph, OpKind::position_embedding).op.inputs[1].dtype == DType::f32);
      }
}
