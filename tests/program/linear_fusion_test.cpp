#include "engine/program/linear_fusion.h"

#include <catch2/catch.hpp>

#include <string>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"
#include "tests/program/live_program.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

class FusingDevice final : public DescribedDevice {
 public:
  LinearFusions linear_fusions() const override { return {.relu_gradients = true, .gelu = true}; }
};

Program program_of(const std::string& layers, const DeviceModel& device, const std::string& rest = "",
                   std::int64_t outputs = 10) {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\n"
      "model:\n  layers: [" +
          layers + "]\n" + rest + "train: {batch_size: 16}\nmemory: {recompute_cheap: false}\n",
      "test.yaml");
  return compile(experiment, described_data({8, 8, 3}, outputs, 64, 20), device);
}

struct LinearCounts {
  int activations = 0, activation_gradients = 0, keeping = 0, through_relu = 0, through_gelu = 0;
  friend bool operator==(const LinearCounts&, const LinearCounts&) = default;
};
std::ostream& operator<<(std::ostream& out, const LinearCounts& c) {
  return out << c.activations << " activations, " << c.activation_gradients << " gradients of them, " << c.keeping
             << " layers that keep something, gradients through relu " << c.through_relu << ", through gelu "
             << c.through_gelu;
}

LinearCounts counts_of(const Program& program) {
  LinearCounts counts;
  for (const Instruction& instruction : program.micro_batches[0].first.instructions) {
    if (instruction.kind != Kind::run) continue;
    const Op& op = program.calls[instruction.index].op;
    counts.activations += op.kind == OpKind::activation ? 1 : 0;
    counts.activation_gradients += op.kind == OpKind::activation_backward ? 1 : 0;
    const auto* linear = std::get_if<LinearAttributes>(&op.attributes);
    if (linear == nullptr) continue;
    counts.keeping += op.kind == OpKind::linear && linear->keeps ? 1 : 0;
    counts.through_relu += linear->through == InputActivation::relu ? 1 : 0;
    counts.through_gelu += linear->through == InputActivation::gelu ? 1 : 0;
  }
  return counts;
}

LinearCounts fused_counts(const std::string& layers, const std::string& rest = "", std::int64_t outputs = 10) {
  return counts_of(program_of(layers, FusingDevice(), rest, outputs));
}

std::int64_t mask_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.name.find("output.mask") != std::string::npos) bytes += buffer.num_bytes;
  return bytes;
}

const std::string relu_network = "flatten, {linear: {out: 256}}, relu, {linear: {out: 100}}, relu, {linear: {out: 10}}";
const std::string gelu_network =
    "flatten, {linear: {out: 64}}, {gelu: {approximate: tanh}}, {linear: {out: 24}}, {gelu: {approximate: tanh}}, "
    "{linear: {out: 10}}";

}  // namespace

TEST_CASE("gradients go back through ReLU in the product before it, where the device says so") {
  CHECK(fused_counts(relu_network) == LinearCounts{.keeping = 2, .through_relu = 2});
  CHECK(counts_of(program_of(relu_network, DescribedDevice())) == LinearCounts{.activation_gradients = 2});
}

TEST_CASE("masks of ReLU cost no more than their own bytes, 1/32 of what they stand for") {
  const Program fused = program_of(relu_network, FusingDevice());
  const Program plain = program_of(relu_network, DescribedDevice());
  CHECK(mask_bytes(fused) == 16 * (32 + 16));
  CHECK(mask_bytes(plain) == 0);
  CHECK(peak_bytes(fused) <= peak_bytes(plain) + mask_bytes(fused));
}

TEST_CASE("GELU by tanh moves into its layer and its gradient into the next layer's, at no byte") {
  CHECK(fused_counts(gelu_network) == LinearCounts{.keeping = 2, .through_gelu = 2});
  CHECK(peak_bytes(program_of(gelu_network, FusingDevice())) <=
        peak_bytes(program_of(gelu_network, DescribedDevice())));
}

TEST_CASE("a gradient that something stands before is not fused") {
  // Dropout between: the product's result is dropout's gradient.
  CHECK(fused_counts("flatten, {linear: {out: 128}}, relu, {dropout: {p: 0.5}}, {linear: {out: 10}}") ==
        LinearCounts{.activation_gradients = 1});
  CHECK(fused_counts("flatten, {linear: {out: 128}}, {gelu: {approximate: tanh}}, {dropout: {p: 0.5}}, "
                     "{linear: {out: 10}}") == LinearCounts{.activation_gradients = 1, .keeping = 1});
  // The output is read twice, so its gradient is a sum.
  CHECK(fused_counts("flatten, {linear: {out: 128}}, relu, {residual: {layers: [{linear: {out: 128}}]}}, "
                     "{linear: {out: 10}}") == LinearCounts{.activation_gradients = 1});
  // Another layer before ReLU, and a view between.
  CHECK(fused_counts("{conv2d: {out: 4, kernel: 3}}, relu, flatten, {linear: {out: 10}}") ==
        LinearCounts{.activation_gradients = 1});
}

TEST_CASE("what a product cannot do, or what does not pay, is left alone") {
  // GELU by erf is another function.
  CHECK(fused_counts("flatten, {linear: {out: 128}}, gelu, {linear: {out: 10}}") ==
        LinearCounts{.activations = 1, .activation_gradients = 1});
  // 8 does not divide the outputs.
  CHECK(fused_counts("flatten, {linear: {out: 100}}, {gelu: {approximate: tanh}}, {linear: {out: 10}}") ==
        LinearCounts{.activations = 1, .activation_gradients = 1});
  // A mask of 16 bytes for 63 numbers.
  CHECK(fused_counts("flatten, {linear: {out: 63}}, relu, {linear: {out: 10}}") ==
        LinearCounts{.activation_gradients = 1});
  // A product of one term.
  CHECK(fused_counts("flatten, {linear: {out: 128}}, relu, {linear: {out: 1}}, {linear: {out: 10}}") ==
        LinearCounts{.activation_gradients = 1});
}

TEST_CASE("evaluation keeps nothing for gradients") {
  const Program program = program_of(gelu_network, FusingDevice());
  REQUIRE(program.evaluations.size() == 2);
  for (const Routine& routine : program.evaluations) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind != Kind::run) continue;
      const auto* linear = std::get_if<LinearAttributes>(&program.calls[instruction.index].op.attributes);
      CHECK((linear == nullptr || !linear->keeps));
    }
  }
}

TEST_CASE("a fusion that the device does not name is not made") {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers: [" + gelu_network + "]\n",
      "test.yaml");
  Graph graph = build_graph(experiment, described_data({8, 8, 3}, 10, 64), 4, GraphMode::training);
  differentiate(graph);
  const std::size_t num_nodes = graph.nodes.size();
  fuse_linear_gradients(graph, {.relu_gradients = true});
  CHECK(graph.nodes.size() == num_nodes);
  fuse_linear_gradients(graph, {.gelu = true});
  CHECK(graph.nodes.size() == num_nodes - 4);
}
