#include "engine/program/residual_fusion.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"
#include "engine/program/recompute/recompute.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

const std::string plain_conv = "{conv2d: {out: 4, kernel: 3, padding: 1}}";
const std::string plain_bn = plain_conv + ", batchnorm2d";

Program program_of(const std::string& layers, const std::string& rest = "", const Shape& sample = {8, 8, 3}) {
  const std::string shape = sample.rank() == 3 ? "[8, 8, 3]" : "[6]";
  const Experiment experiment =
      parse_experiment("data: {type: synthetic, shape: " + shape + ", classes: 10, samples: 64}\nmodel:\n  layers: [" +
                           layers + "]\n" + rest,
                       "test.yaml");
  return compile(experiment, described_data(sample, 10, 64, 20), DescribedDevice());
}

std::vector<const OpCall*> calls_of(const Program& program, const Routine& routine) {
  std::vector<const OpCall*> calls;
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind == Kind::run) calls.push_back(&program.calls[instruction.index]);
  return calls;
}

bool is_batchnorm_with_addend(const OpCall& call) {
  const auto* const attributes = std::get_if<BatchNorm2dAttributes>(&call.op.attributes);
  return attributes != nullptr && attributes->adds;
}

bool is_layernorm_with_addend(const OpCall& call) {
  const auto* const attributes = std::get_if<LayerNormAttributes>(&call.op.attributes);
  return attributes != nullptr && attributes->adds;
}

/// What of a routine's residual blocks is one op and what is not.
struct ResidualCounts {
  int batchnorms = 0, again = 0, inferences = 0, batchnorm_gradients = 0, layernorms = 0, layernorm_gradients = 0;
  int sums = 0, relu_gradients = 0;
  friend bool operator==(const ResidualCounts&, const ResidualCounts&) = default;
};
std::ostream& operator<<(std::ostream& out, const ResidualCounts& c) {
  return out << c.batchnorms << " batch norms with an addend, " << c.again << " of them again, " << c.inferences
             << " in evaluation, " << c.batchnorm_gradients << " gradients, " << c.layernorms
             << " layer norms of sums, " << c.layernorm_gradients << " gradients; " << c.sums << " sums, "
             << c.relu_gradients << " gradients of relu";
}

ResidualCounts counts_of(const Program& program, const Routine& routine) {
  ResidualCounts counts;
  for (const OpCall* const call : calls_of(program, routine)) {
    const bool adds = is_batchnorm_with_addend(*call);
    counts.batchnorms += adds && call->op.kind == OpKind::batchnorm2d ? 1 : 0;
    counts.again += adds && call->op.kind == OpKind::batchnorm2d_normalize ? 1 : 0;
    counts.inferences += adds && call->op.kind == OpKind::batchnorm2d_inference ? 1 : 0;
    counts.batchnorm_gradients += adds && call->op.kind == OpKind::batchnorm2d_backward ? 1 : 0;
    counts.layernorms += is_layernorm_with_addend(*call) && call->op.kind == OpKind::layernorm ? 1 : 0;
    counts.layernorm_gradients +=
        is_layernorm_with_addend(*call) && call->op.kind == OpKind::layernorm_backward ? 1 : 0;
    counts.sums += call->op.kind == OpKind::add ? 1 : 0;
    counts.relu_gradients += call->op.kind == OpKind::activation_backward ? 1 : 0;
  }
  return counts;
}

ResidualCounts training_counts(const std::string& layers, const std::string& memory = "recompute_cheap: false",
                               const Shape& sample = {8, 8, 3}) {
  const Program program = program_of(layers, "train: {batch_size: 16}\nmemory: {" + memory + "}\n", sample);
  return counts_of(program, program.micro_batches[0].first);
}

ResidualCounts evaluation_counts(const std::string& layers, const Shape& sample = {8, 8, 3}) {
  const Program program = program_of(layers, "train: {batch_size: 16}\n", sample);
  return counts_of(program, program.evaluations[0]);
}

std::string residual(const std::string& layers, const std::string& shortcut = "") {
  return "{residual: {layers: [" + layers + "]" + (shortcut.empty() ? "" : ", shortcut: [" + shortcut + "]") + "}}";
}

const std::string end_of_images = ", flatten, {linear: {out: 10}}";
const std::string block = residual(plain_bn + ", relu, " + plain_bn);
const std::string down = residual(plain_bn, plain_bn);
const std::string mlp_block = residual("layernorm, {linear: {out: 20}}, gelu, {linear: {out: 12}}");

}  // namespace

TEST_CASE("the sum and the ReLU behind a batch norm are part of it, and so is the gradient of ReLU") {
  const std::string layers = plain_bn + ", relu, " + block + ", relu, " + plain_conv + end_of_images;
  CHECK(training_counts(layers) == ResidualCounts{.batchnorms = 1, .batchnorm_gradients = 1, .sums = 1});
  CHECK(evaluation_counts(layers) == ResidualCounts{.inferences = 1});
}

TEST_CASE("the batch norms of features take ReLU, the sum behind them and their gradients as those of images do") {
  const std::string plain = "{linear: {out: 12}}, batchnorm1d";
  const std::string layers = plain + ", relu, " + residual(plain + ", relu, " + plain) + ", relu, {linear: {out: 10}}";
  CHECK(training_counts(layers, "recompute_cheap: false", {6}) ==
        ResidualCounts{.batchnorms = 1, .batchnorm_gradients = 1, .sums = 1});
  CHECK(training_counts(layers, "recompute_cheap: true", {6}).again == 1);
  CHECK(evaluation_counts(layers, {6}) == ResidualCounts{.inferences = 1});
}

TEST_CASE("of two batch norms that end in one sum the shortcut's takes it") {
  const std::string layers = plain_bn + ", relu, " + down + ", relu, " + plain_conv + end_of_images;
  const Program program = program_of(layers, "train: {batch_size: 16}\n");
  for (const OpCall* const call : calls_of(program, program.micro_batches[0].first)) {
    if (call->op.kind != OpKind::batchnorm2d || !is_batchnorm_with_addend(*call)) continue;
    CHECK(program.layers[call->layer].path == "3");
    // The sum is stored over the addend, and named after what made it first.
    CHECK(call->outputs[0] == call->inputs.back());
    CHECK(program.buffers[call->outputs[0]].name == "3.layers.1.output");
  }
  CHECK(evaluation_counts(layers) == ResidualCounts{.inferences = 1});
}

TEST_CASE(
    "without ReLU, or where ReLU is not alone behind it, a sum is part of a batch norm and its gradient is none") {
  for (const std::string& behind : {std::string(", silu"), std::string(""), ", " + residual("relu, " + plain_conv)}) {
    INFO(behind);
    const ResidualCounts counts = training_counts(plain_bn + ", " + block + behind + end_of_images);
    CHECK(counts.batchnorms == 1);
    CHECK(counts.batchnorm_gradients == 0);
  }
}

TEST_CASE("a block that is run again is run again as one op") {
  const ResidualCounts counts =
      training_counts(plain_bn + ", relu, " + block + ", relu, " + block + ", relu, " + plain_conv + end_of_images,
                      "recompute_cheap: true");
  CHECK(counts.batchnorms == 2);
  CHECK(counts.again >= 2);
  CHECK(counts.batchnorm_gradients == 2);
  CHECK(counts.relu_gradients == 0);
}

TEST_CASE("a block is run again where a pattern names its batch norm, its sum or both") {
  const std::string layers = plain_bn + ", relu, " + block + ", relu, " + plain_conv + end_of_images;
  for (const std::string pattern : {"3.layers.4", "3", "batchnorm2d", "residual"}) {
    INFO(pattern);
    const Program program = program_of(layers, "train: {batch_size: 16, checkpointing: {layers: ['" + pattern +
                                                   "']}}\nmemory: {recompute_cheap: false}\n");
    CHECK(counts_of(program, program.micro_batches[0].first).again == 1);
  }
}

TEST_CASE("a batch norm that something stands behind, or whose output is read twice, has no addend") {
  // ReLU before the sum, a layer before it, a second reader, a shortcut that ends in another layer and runs later.
  for (const std::string& layers : {residual(plain_bn + ", relu"), residual(plain_bn + ", {avgpool2d: {kernel: 1}}"),
                                    plain_bn + ", " + residual(plain_conv), residual(plain_bn, plain_conv)}) {
    INFO(layers);
    const std::string whole = plain_conv + ", " + layers + ", relu, " + plain_conv + end_of_images;
    CHECK(training_counts(whole).batchnorms == 0);
    CHECK(training_counts(whole).batchnorm_gradients == 0);
    CHECK(evaluation_counts(whole).inferences == 0);
  }
}

TEST_CASE("the gradient of ReLU is part of no batch norm where the mask is read further on") {
  const std::string layers = plain_bn + ", relu, " + block + ", relu, dropout" + end_of_images;
  const ResidualCounts counts = training_counts(layers);
  CHECK(counts.batchnorms == 1);
  CHECK(counts.batchnorm_gradients == 0);
  CHECK(counts.relu_gradients == 1);
}

TEST_CASE("blocks that normalise first take the sum before and add the gradient that comes past them") {
  const std::string layers =
      "{linear: {out: 12}}, " + mlp_block + ", " + mlp_block + ", layernorm, {linear: {out: 10}}";
  const Shape features{6};
  // The last sum is read by its layer norm alone; the first block's input is no sum.
  CHECK(training_counts(layers, "recompute_cheap: false", features) ==
        ResidualCounts{.layernorms = 2, .layernorm_gradients = 2, .relu_gradients = 2});
  // In evaluation nothing but the layer norm reads the last sum, which it could not write over.
  CHECK(evaluation_counts(layers, features) == ResidualCounts{.layernorms = 1, .sums = 1});
}

TEST_CASE("however much is computed again, in 16 bit the gradients of layer norms add what comes past their blocks") {
  const std::string of_block = residual("layernorm, {linear: {out: 20}}, gelu, {linear: {out: 12}}, layernorm, silu");
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [6], classes: 10, samples: 64}\ntrain: {batch_size: 16, amp: bf16}\n"
      "model:\n  layers: [{linear: {out: 12}}, " +
          of_block + ", " + of_block + ", " + of_block + ", " + of_block + ", {linear: {out: 10}}]\n",
      "test.yaml");
  const DataDescription data = described_data({6}, 10, 64);
  const bool in_place = GENERATE(true, false);
  const Graph graph = make_training_graph(experiment, data, DescribedDevice()).graph;
  const RecomputeProblem problem = make_recompute_problem(graph, DescribedDevice(), {.in_place = in_place});
  const std::vector<bool> all(problem.values.size(), true), none(problem.values.size(), false);
  std::vector<std::vector<std::int32_t>> orders = {order_of_kept(problem, all), order_of_kept(problem, none)};
  for (const RecomputeOrder& found : search_orders(problem, orders[0])) orders.push_back(found.nodes);
  CHECK(orders.size() > 5);
  for (const std::vector<std::int32_t>& order : orders) {
    Graph run = graph;
    apply_order(run, order);
    fuse_residuals(run, in_place);
    const auto num_adding = std::count_if(run.nodes.begin(), run.nodes.end(), [](const GraphNode& node) {
      return node.op.kind == OpKind::layernorm_backward && attributes_of<LayerNormAttributes>(node.op).adds;
    });
    const auto num_sums = std::count_if(run.nodes.begin(), run.nodes.end(), [](const GraphNode& node) {
      return node.phase == Phase::backward && node.op.kind == OpKind::add;
    });
    CHECK(num_adding == 4);
    CHECK(num_sums == 0);
  }
}

TEST_CASE("a sum with ReLU, a view of a sum, and a gradient that is added to itself are no part of a layer norm") {
  const Shape features{6};
  const std::string first = "{linear: {out: 12}}, ", last = ", {linear: {out: 10}}";
  const std::string mlp = residual("{linear: {out: 12}}");
  const auto counts = [&](const std::string& layers) {
    return training_counts(first + layers + last, "recompute_cheap: false", features);
  };
  CHECK(counts(mlp + ", relu, " + mlp_block).layernorms == 0);
  CHECK(counts(mlp + ", " + residual("flatten, layernorm, {linear: {out: 12}}")) == ResidualCounts{.sums = 4});
  CHECK(counts(residual("layernorm")).layernorm_gradients == 0);
}

TEST_CASE("without memory.in_place only what holds no more stays fused") {
  const std::string memory = "recompute_cheap: false, in_place: false";
  const ResidualCounts images =
      training_counts(plain_bn + ", relu, " + block + ", relu, " + plain_conv + end_of_images, memory);
  CHECK(images == ResidualCounts{.batchnorms = 1, .sums = 1, .relu_gradients = 1});
  const ResidualCounts features = training_counts(
      "{linear: {out: 12}}, " + mlp_block + ", " + mlp_block + ", {linear: {out: 10}}", memory, Shape{6});
  CHECK(features.layernorms == 0);
  CHECK(features.layernorm_gradients == 2);
}

TEST_CASE("a block as one op holds no more at once than as two") {
  const std::string apart = ", {avgpool2d: {kernel: 1}}", in_view = "flatten, ";
  for (const std::string memory : {"recompute_cheap: false", "recompute_cheap: true", "in_place: false",
                                   "recompute_cheap: false, in_place: false"}) {
    for (const std::string train : {"", ", checkpointing: {layers: ['*']}", ", checkpointing: {layers: [linear]}",
                                    ", amp: bf16", ", accumulation_steps: 2"}) {
      INFO(memory << train);
      const std::string rest = "train: {batch_size: 16" + train + "}\nmemory: {" + memory + "}\n";
      const auto images = [&](const std::string& between) {
        return plain_bn + ", relu, " + residual(plain_bn + ", relu, " + plain_bn + between) + ", relu, " +
               residual(plain_bn + between, plain_bn + between) + ", relu, " + residual(plain_bn + between) +
               ", relu, " + plain_conv + end_of_images;
      };
      CHECK(peak_bytes(program_of(images(""), rest)) <= peak_bytes(program_of(images(apart), rest)));
      const auto features = [&](const std::string& between) {
        const std::string of_block = residual(between + "layernorm, {linear: {out: 20}}, gelu, {linear: {out: 12}}");
        return "{linear: {out: 12}}, " + of_block + ", " + of_block + ", " + of_block + ", " + between +
               "layernorm, {linear: {out: 10}}";
      };
      CHECK(peak_bytes(program_of(features(""), rest, Shape{6})) <=
            peak_bytes(program_of(features(in_view), rest, Shape{6})));
    }
  }
}

TEST_CASE("a batch norm with an addend counts one operation more an element") {
  const TensorType x{DType::f32, {2, 3, 3, 4}};
  const auto flops = [](const Op& op) { return definition_of(op.kind).flops(op); };
  for (const Op& op : {batchnorm2d_op(x, {}), batchnorm2d_inference_op(x, {}), layernorm_op(x, {})}) {
    const bool is_layernorm = op.kind == OpKind::layernorm;
    const Op adding = is_layernorm ? layernorm_adding_op(op) : batchnorm2d_adding_op(op, true);
    CHECK(flops(adding) == flops(op) + x.num_elements());
    CHECK(adding.inputs.back() == x);
  }
}
