#include "engine/plan/model_flops.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/plan/step_flops.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

constexpr std::int64_t length = 64, vocabulary = 500, width = 128, depth = 3;

DataDescription windows_of_tokens() {
  DataDescription data;
  InputDescription& tokens = data.inputs.emplace_back();
  tokens.type = {DType::i32, {length}};
  tokens.num_indices = vocabulary;
  data.target = {DType::i32, {length}};
  data.num_outputs = vocabulary;
  data.num_train = 64;
  return data;
}

Experiment gpt(const std::string& train) {
  return parse_experiment(
      "data: {type: tokens, train: a.bin, classes: 500, sequence_length: 64}\n"
      "model: {file: models/gpt2.yaml, with: {depth: 3, width: 128, heads: 4, vocabulary: 500, length: 64}}\n"
      "train: {batch_size: 4" +
          train + "}\n",
      "test.yaml");
}

}  // namespace

TEST_CASE("model FLOPs of a token are PaLM's 6 N + 12 L H Q T, but for what a causal token does not see") {
  const double found = model_flops_of_sample(gpt(""), windows_of_tokens(), 4) / length;
  // Of the matrices, the head that is the embedding again with them.
  const double matrices = 12.0 * depth * width * width + vocabulary * width;
  const double seen = (length + 1) / 2.0;
  const double expected = 6 * matrices + 12.0 * depth * width * seen;
  // Norms, activations, sums and the softmax are some percent of so small a model.
  CHECK(found > expected);
  CHECK(found < 1.04 * expected);
}

TEST_CASE("what is computed again to save memory is no FLOP of the model, nor does the batch matter") {
  const double plain = model_flops_of_sample(gpt(""), windows_of_tokens(), 4);
  CHECK(model_flops_of_sample(gpt(", checkpointing: {every: 1}, amp: bf16"), windows_of_tokens(), 4) == plain);
  CHECK(model_flops_of_sample(gpt(""), windows_of_tokens(), 1) == Approx(plain).epsilon(1e-3));
}
