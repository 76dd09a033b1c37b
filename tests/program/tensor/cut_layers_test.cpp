#include "engine/program/tensor/cut_layers.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/program/compile.h"
#include "engine/program/held_parts.h"
#include "tests/device/described_device.h"
#include "tests/refusal.h"

// Which layers ranks share, and which part of a parameter each of them has. That they train as one process does is
// tests/ranks/tensor_runs_test.cpp.

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

struct SharedModel {
  std::string yaml;
  DataDescription data;
};

SharedModel numbers_to_share(const std::string& layers, std::int64_t num_classes = 10) {
  return {"data: {type: synthetic, shape: [16], classes: " + std::to_string(num_classes) +
              ", samples: 64}\nmodel: {layers: [" + layers + "]}\ntrain: {batch_size: 8}\n",
          described_data({16}, num_classes, 64)};
}

SharedModel texts_to_share(const std::string& layers, const std::string& more = "") {
  DataDescription data = described_data({6}, 25, 64);
  data.inputs[0].type = {DType::i32, {6}};
  data.inputs[0].num_indices = 25;
  data.target = {DType::i32, {6}};
  return {"data: {type: tokens, train: a.bin, classes: 25, sequence_length: 6}\nmodel: {layers: [" + layers +
              "]}\ntrain: {batch_size: 8}\n" + more,
          data};
}

Experiment experiment_of(const SharedModel& model, std::int64_t num_ranks, std::int64_t rank = 0) {
  Experiment experiment = parse_experiment(model.yaml, "cut.yaml", {"parallel.tensor=" + std::to_string(num_ranks)});
  experiment.parallel.rank = rank;
  return experiment;
}

/// Of each parameter that ranks have parts of, the shapes of two ranks' parts: "12×16 12×16".
std::map<std::string, std::string> parts_of(const SharedModel& model) {
  std::map<std::string, std::string> parts;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const Program program = compile(experiment_of(model, 2, rank), model.data, DescribedDevice());
    for (std::size_t p = 0; p < program.parameters.size(); ++p) {
      const Buffer& buffer = program.buffers[program.parameter_buffers[p]];
      if (!buffer.part) continue;
      std::string& text = parts[program.parameters[p].name];
      text += (text.empty() ? "" : " ") + buffer.type.shape.to_string();
    }
  }
  return parts;
}

const char* const shared_block =
    "{residual: {layers: [layernorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true}}, "
    "{linear: {out: 16}}]}}";

}  // namespace

TEST_CASE("linear layers are shared in pairs, by what stands between them") {
  using Parts = std::map<std::string, std::string>;
  CHECK(parts_of(numbers_to_share("{linear: {out: 24}}, relu, {linear: {out: 10}}")) ==
        Parts{{"0.weight", "12×16 12×16"}, {"0.bias", "12 12"}, {"2.weight", "10×12 10×12"}, {"2.bias", "10 0"}});
  // The third has no partner, the fourth's output is the loss's.
  CHECK(parts_of(
            numbers_to_share("{linear: {out: 24}}, gelu, {dropout: {p: 0.1}}, {linear: {out: 12, bias: false}}, relu, "
                             "{linear: {out: 10}}")) ==
        Parts{{"0.weight", "12×16 12×16"}, {"0.bias", "12 12"}, {"3.weight", "12×12 12×12"}});
  CHECK(parts_of(numbers_to_share("{linear: {out: 24}}, swiglu, {linear: {out: 10, bias: false}}")) ==
        Parts{{"0.weight", "12×16 12×16"}, {"0.bias", "12 12"}, {"2.weight", "10×6 10×6"}});
  // A norm needs all features.
  CHECK(parts_of(numbers_to_share("{linear: {out: 24}}, layernorm, {linear: {out: 6}}, tanh, {linear: {out: 10}}")) ==
        Parts{{"2.weight", "3×24 3×24"}, {"2.bias", "3 3"}, {"4.weight", "10×3 10×3"}, {"4.bias", "10 0"}});
}

TEST_CASE("attention is shared by heads, and words by rows") {
  using Parts = std::map<std::string, std::string>;
  const Parts of_attention = {{"1.layers.1.weight", "24×16 24×16"},
                              {"1.layers.1.bias", "24 24"},
                              {"1.layers.3.weight", "16×8 16×8"},
                              {"1.layers.3.bias", "16 0"}};
  Parts tied = of_attention, apart = of_attention;
  tied["wte.weight"] = apart["wte.weight"] = "13×16 12×16";
  const std::string front = "{embedding: {num: 25, dim: 16, name: wte}}, ";
  CHECK(parts_of(texts_to_share(front + shared_block + ", {linear: {out: 25, bias: false, share: wte}}")) == tied);
  CHECK(parts_of(texts_to_share(front + shared_block + ", {linear: {out: 25}}")) == apart);
  // Classes that are weighted are not computed in parts, and so neither are the words that are the same rows.
  CHECK(parts_of(texts_to_share(
            front + shared_block + ", {linear: {out: 25, bias: false, share: wte}}",
            "loss: {type: cross_entropy, class_weights: [" +
                [] {
                  std::string weights = "1";
                  for (int i = 1; i < 25; ++i) weights += ", 1";
                  return weights;
                }() +
                "]}\n")) == of_attention);
  CHECK(parts_of(numbers_to_share("{linear: {out: 1500}}", 1500)) ==
        Parts{{"0.weight", "750×16 750×16"}, {"0.bias", "750 750"}});
  // A layer over many classes is no partner of the one in front of it.
  CHECK(parts_of(numbers_to_share("{linear: {out: 64}}, relu, {linear: {out: 1500}}", 1500)) ==
        Parts{{"2.weight", "750×64 750×64"}, {"2.bias", "750 750"}});
}

TEST_CASE("evaluations cut what training does, where dropout stands in between") {
  SharedModel model = numbers_to_share(
      "{linear: {out: 24}}, relu, {linear: {out: 16}}, {linear: {out: 48}}, {dropout: {p: 0.1}}, swiglu, {linear: "
      "{out: 10}}");
  model.data.num_validation = 16;
  CHECK(parts_of(model).size() == 4);
  const Program program = compile(experiment_of(model, 2), model.data, DescribedDevice());
  for (const Routine& routine : program.evaluations)
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind != Instruction::Kind::run) continue;
      const OpCall& call = program.calls[instruction.index];
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        CHECK(call.op.inputs[i] == program.buffers[call.inputs[i]].type);
    }
}

TEST_CASE("ranks know of each other's parts what these know, with copies of 16 bits and stages, too") {
  const SharedModel model = texts_to_share(
      std::string("{embedding: {num: 25, dim: 512}}, layernorm, {linear: {out: 1536}}, {attention: {heads: 4}}, "
                  "{linear: {out: 512}}, layernorm, {linear: {out: 25}}"));
  for (const auto& [num_stages, num_tensor] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
    std::vector<std::vector<bool>> cuts;
    for (std::int64_t rank = 0; rank < 2 * num_stages * num_tensor; ++rank) {
      Experiment experiment = parse_experiment(
          model.yaml, "parts.yaml",
          {"train.amp=bf16", "parallel.data=2", "parallel.shard=optimizer",
           "parallel.pipeline=" + std::to_string(num_stages), "parallel.tensor=" + std::to_string(num_tensor)});
      experiment.parallel.rank = rank;
      const Program program = compile(experiment, model.data, DescribedDevice());
      std::vector<bool>& cut = cuts.emplace_back();
      for (const BufferId buffer : program.parameter_buffers) cut.push_back(is_cut(program.buffers[buffer]));
      CHECK(cut == cuts.front());
    }
  }
}

TEST_CASE("each number of a parameter is one rank's, or all have it") {
  const SharedModel models[] = {
      numbers_to_share("{linear: {out: 36}}, swiglu, {linear: {out: 18}}, layernorm, {linear: {out: 10}}"),
      texts_to_share(
          std::string("{embedding: {num: 25, dim: 16, name: wte}}, {residual: {layers: [{linear: {out: 60}}, "
                      "{attention: {heads: 6, kv_heads: 3}}, {linear: {out: 16}}]}}, {linear: {out: 25}}"))};
  for (const SharedModel& model : models)
    for (const std::int64_t num_data : {1, 2}) {
      std::map<std::string, std::vector<int>> num_holders;
      std::map<std::string, bool> is_cut_at_all;
      for (std::int64_t rank = 0; rank < 3 * num_data; ++rank) {
        Experiment experiment = experiment_of(model, 3, rank);
        experiment.parallel.data = num_data;
        experiment.parallel.shard = num_data > 1 ? Shard::parameters : Shard::none;
        const Program program = compile(experiment, model.data, DescribedDevice());
        for (std::size_t p = 0; p < program.parameters.size(); ++p) {
          const Buffer& buffer = program.buffers[program.parameter_buffers[p]];
          const std::int64_t num_bytes = program.parameters[p].type.num_bytes();
          std::vector<int>& holders = num_holders[program.parameters[p].name];
          holders.resize(static_cast<std::size_t>(num_bytes));
          is_cut_at_all[program.parameters[p].name] = buffer.part && buffer.part->axis;
          std::vector<HeldRange> held = {{0, 0, num_bytes}};
          if (buffer.part) held = held_of(*buffer.part, program.ranks, 0, num_bytes);
          std::int64_t in_buffer = 0;
          for (const HeldRange& range : held) {
            CHECK(range.in_buffer == in_buffer);
            in_buffer += range.num_bytes;
            for (std::int64_t i = 0; i < range.num_bytes; ++i) ++holders[static_cast<std::size_t>(range.in_tensor + i)];
          }
          CHECK(in_buffer == buffer.num_bytes);
        }
      }
      for (const auto& [name, holders] : num_holders) {
        INFO(name);
        const int expected = is_cut_at_all[name] ? 1 : 3;
        CHECK(holders == std::vector<int>(holders.size(), expected));
      }
    }
}

TEST_CASE("what ranks cannot share evenly is refused, with the layer") {
  const auto refusal = [](const SharedModel& model, std::int64_t num_ranks) {
    return refusal_of<ConfigError>([&] { compile(experiment_of(model, num_ranks), model.data, DescribedDevice()); });
  };
  CHECK_THAT(refusal(numbers_to_share("{linear: {out: 24}}, relu, {linear: {out: 10}}"), 5),
             Contains("5 ranks cannot share the 24 features of layer '0' evenly"));
  CHECK_THAT(
      refusal(texts_to_share(std::string("{embedding: {num: 25, dim: 16}}, ") + shared_block + ", {linear: {out: 25}}"),
              3),
      Contains("3 ranks cannot share the 4 heads of layer '1.layers.2' evenly"));
  CHECK_THAT(refusal(numbers_to_share("{linear: {out: 10}}"), 2), Contains("nothing of the model can be cut"));
  for (const char* other : {"memory.moments=8bit", "parallel.deterministic=true"})
    CHECK_THAT(refusal_of<ConfigError>([&] {
                 parse_experiment(numbers_to_share("{linear: {out: 24}}, relu, {linear: {out: 10}}").yaml, "cut.yaml",
                                  {"parallel.tensor=2", "optimizer.type=adamw", other});
               }),
               Contains("parallel.tensor"));
}
