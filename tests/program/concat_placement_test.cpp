#include "engine/program/concat_placement.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/recompute/recompute.h"
#include "tests/device/described_device.h"

using namespace trainer;
using Kind = Instruction::Kind;

namespace {

Program concatenating(const std::string& layers, const std::string& memory = "recompute_cheap: false") {
  const Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers: [" + layers +
          ", flatten, {linear: {out: 10}}]\ntrain: {batch_size: 16}\nmemory: {" + memory + "}\n",
      "test.yaml");
  return compile(experiment, described_data({8, 8, 3}, 10, 64, 20), DescribedDevice());
}

/// Of a phase, how often each op runs, and those that are placed: "activation@0" where it begins a whole.
std::map<std::string, int> placed_counts(const Program& program, const Routine& routine, Phase phase) {
  std::map<std::string, int> counts;
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Kind::run || instruction.phase != phase) continue;
    const OpCall& call = program.calls[instruction.index];
    std::string name(name_of(call.op.kind));
    if (call.op.placed_at >= 0) {
      name += (continues_whole(call.op) ? "+" : "@") + std::to_string(call.op.placed_at);
      // Only the first of a whole takes memory.
      if (continues_whole(call.op)) CHECK(call.inputs.back() == call.outputs[0]);
    }
    ++counts[name];
  }
  return counts;
}

std::map<std::string, int> forward_counts(const Program& program) {
  return placed_counts(program, program.micro_batches[0].first, Phase::forward);
}

/// What the values of a graph take together while `made_last` is made, each from where it is made to where it is read
/// last.
std::int64_t held_while_making(const Graph& graph, ValueId made_last) {
  std::vector<std::size_t> last(graph.values.size(), 0);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId input : graph.nodes[n].inputs) last[input] = n;
  std::int64_t held = 0;
  std::set<ValueId> made;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    made.insert(node.outputs.begin(), node.outputs.end());
    // What is continued goes on in the output.
    const std::size_t num_read = node.inputs.size() - (continues_whole(node.op) ? 1 : 0);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (i > 0 || num_read == node.inputs.size()) held += graph.values[node.outputs[i]].type.num_bytes();
    if (std::find(node.outputs.begin(), node.outputs.end(), made_last) != node.outputs.end()) return held;
    const std::set<ValueId> read(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(num_read));
    for (const ValueId value : read)
      if (last[value] == n && made.contains(value)) held -= graph.values[value].type.num_bytes();
  }
  return -1;
}

const std::string conv_of_4 = "{conv2d: {out: 4, kernel: 3, padding: 1}}";
/// Branches that end in what can be placed, as in an Inception block.
const std::string branches =
    "{relu: {name: first}}, " + conv_of_4 +
    ", batchnorm2d, {relu: {name: a}}, {conv2d: {out: 6, kernel: 1, from: first}}, " +
    "{silu: {name: b}}, {conv2d: {out: 5, kernel: 3, padding: 1, from: first}}, {batchnorm2d: {name: c}}, " +
    "{concat: {from: [a, b, c]}}";

}  // namespace

TEST_CASE("parts of a concatenation that nothing else reads are written in place") {
  const Program program = concatenating(branches);
  const auto counts = forward_counts(program);
  CHECK(counts.count("concat") == 0);
  CHECK(counts.count("place_channels") == 0);
  CHECK(counts.at("batchnorm2d@0") == 1);
  CHECK(counts.at("activation+4") == 1);
  CHECK(counts.at("batchnorm2d+10") == 1);
  const auto evaluated = placed_counts(program, program.evaluations[0], Phase::eval);
  CHECK(evaluated.at("batchnorm2d_inference@0") == 1);
  CHECK(evaluated.count("concat") == 0);

  const Program copying = concatenating(branches, "recompute_cheap: false, in_place: false");
  CHECK(forward_counts(copying).at("concat") == 1);
}

TEST_CASE("parts that others read, or that products make, are copied, and what remains is placed") {
  const auto counts =
      forward_counts(concatenating("{relu: {name: first}}, " + conv_of_4 + ", {tanh: {name: a}}, " + conv_of_4 +
                                   ", {silu: {name: b}}, {conv2d: {out: 3, kernel: 1, name: c}}, " +
                                   "{silu: {from: b, name: d}}, {concat: {from: [a, d, c, first]}}"));
  CHECK(counts.count("concat") == 0);
  CHECK(counts.at("activation@4") == 1);       // d
  CHECK(counts.at("place_channels+0") == 1);   // a, which the convolution behind it reads too
  CHECK(counts.at("place_channels+8") == 1);   // c
  CHECK(counts.at("place_channels+11") == 1);  // first
  // Where nothing can be placed it is a concatenation as before.
  const auto none =
      forward_counts(concatenating(conv_of_4 + ", {conv2d: {out: 3, kernel: 1, name: a}}, {conv2d: {out: 2, kernel: "
                                               "1, name: b}}, {concat: {from: [a, b]}}"));
  CHECK(none.at("concat") == 1);
}

TEST_CASE("a part is not placed where the whole would wait too long for the others") {
  // What is widest stands between the first part and the last, and is gone when they meet.
  const std::string layers =
      "{avgpool2d: {kernel: 2, name: first}}, {relu: {name: early}}, {conv2d: {out: 512, kernel: 1, "
      "from: first}}, {global_avgpool: {name: thin}}, {linear: {out: 4}}, {sigmoid: {name: gate}}, "
      "{conv2d: {out: 4, kernel: 1, from: first}}, {tanh: {name: late}}, {multiply: {from: [late, "
      "gate]}}, {silu: {name: last}}, {concat: {from: [early, last]}}";
  const Program program = concatenating(layers, "recompute_cheap: false");
  const auto counts = forward_counts(program);
  CHECK(counts.count("activation@0") == 0);
  CHECK(counts.at("activation@3") == 1);
  CHECK(counts.at("place_channels+0") == 1);
}

TEST_CASE("a concatenation in place holds less, also where the backward pass makes it again") {
  const std::string skip = conv_of_4 + ", batchnorm2d, {relu: {name: skip}}, " + conv_of_4 +
                           ", {batchnorm2d: {name: up}}, " + "{concat: {from: [skip, up]}}, " + conv_of_4 +
                           ", batchnorm2d";
  for (const std::string& layers : {skip, branches}) {
    for (const bool cheap : {false, true}) {
      const Experiment experiment =
          parse_experiment("data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 64}\nmodel:\n  layers: [" +
                               layers + ", flatten, {linear: {out: 10}}]\ntrain: {batch_size: 16}\n",
                           "test.yaml");
      const DescribedDevice device;
      Graph graph = make_training_graph(experiment, described_data({8, 8, 3}, 10, 64, 20), device).graph;
      apply_recompute(graph, device, {.checkpointing = &experiment.train.checkpointing, .cheap = cheap});
      INFO(layers << (cheap ? ", again" : ""));
      std::map<ValueId, std::int64_t> copying;  // by what a concatenation makes
      for (const GraphNode& node : graph.nodes)
        if (node.op.kind == OpKind::concat) copying[node.outputs[0]] = held_while_making(graph, node.outputs[0]);
      CHECK(copying.size() == (cheap ? 2 : 1));
      place_concatenated(graph, true);
      for (const auto& [made, held] : copying) CHECK(held_while_making(graph, made) < held);
      for (const GraphNode& node : graph.nodes) CHECK(node.op.kind != OpKind::concat);
    }
  }
}

TEST_CASE("a skip that is read again further on is made twice instead of being copied and held") {
  const auto unet = [](const std::string& activation) {
    return conv_of_4 + ", batchnorm2d, {" + activation + ": {name: skip}}, {maxpool2d: {kernel: 2}}, " +
           "{conv2d: {out: 6, kernel: 3, padding: 1, name: inner}}, batchnorm2d, relu, {conv_transpose2d: {out: 4, " +
           "kernel: 2, stride: 2, name: up}}, {concat: {from: [skip, up]}}, {conv2d: {out: 8, kernel: 3, padding: 1}}";
  };
  const auto again = [](const Program& program) {
    return placed_counts(program, program.micro_batches[0].first, Phase::recompute);
  };
  const Program program = concatenating(unet("relu"), "recompute_cheap: true");
  const Program copying = concatenating(unet("relu"), "recompute_cheap: true, in_place: false");
  const auto copied = again(copying), placed = again(program);
  CHECK(copied.at("concat") == 1);
  CHECK(copied.at("batchnorm2d_normalize") == 2);
  CHECK(placed.count("concat") == 0);
  CHECK(placed.at("batchnorm2d_normalize@0") == 1);
  CHECK(placed.at("place_channels+4") == 1);
  CHECK(placed.at("batchnorm2d_normalize") == 2);
  // While the inner levels' gradients are computed, it is not there.
  const auto held_at_inner = [](const Program& of) {
    std::int64_t held = 0;
    for (const Instruction& instruction : of.micro_batches[0].first.instructions) {
      if (instruction.kind == Kind::allocate) held += of.buffers[instruction.index].num_bytes;
      if (instruction.kind == Kind::release) held -= of.buffers[instruction.index].num_bytes;
      if (instruction.kind == Kind::run && instruction.phase == Phase::backward &&
          of.calls[instruction.index].op.kind == OpKind::conv_transpose2d_backward_weight)
        return held;
    }
    return std::int64_t{-1};
  };
  CHECK(held_at_inner(program) == held_at_inner(copying) - 16 * 8 * 8 * 4 * 4);

  // Exponentials take longer than a copy.
  const auto slow = again(concatenating(unet("silu"), "recompute_cheap: true"));
  CHECK(slow.at("concat") == 1);
  CHECK(slow.at("activation") == 1);
}
