#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Three documents, and the token that begins a fourth, which is a target alone.
const std::vector<std::uint16_t> three_documents = {9, 1, 4, 2, 7, 9, 3, 9, 8, 8, 1, 0, 5, 9};

std::string write_tokens(const OutputFolder& folder, const std::string& name,
                         const std::vector<std::uint16_t>& tokens) {
  const std::string path = folder.path(name);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  return path;
}

/// An experiment of a model with learned positions, attention of one operand and of three, over documents; `data` are
/// more keys of it.
std::string documents_experiment(const std::string& tokens, const std::string& data, const std::string& attention) {
  return "name: documents\nseed: 5\ndata: {type: tokens, train: " + tokens + ", validation: " + tokens +
         ", classes: 11, sequence_length: 13, document_token: 9" + data + "}\n" +
         R"(
model:
  layers:
    - embedding: {num: 11, dim: 8}
    - position_embedding: {length: 13}
    - residual:
        layers: [layernorm, linear: {out: 24}, attention: {heads: 2)" +
         attention + R"(}, linear: {out: 8}]
    - residual:
        layers:
          - layernorm: {name: first}
          - linear: {out: 8, name: q}
          - linear: {out: 4, name: k, from: first}
          - linear: {out: 4, name: v, from: first}
          - attention: {heads: 2, kv_heads: 1, rotary_base: 100, from: [q, k, v])" +
         attention + R"(}
    - linear: {out: 11}
optimizer: {type: sgd, lr: 0.5}
train: {batch_size: 3, steps: 4, eval_batch_size: 1}
)";
}

std::vector<double> losses_of(const std::string& yaml, const OutputFolder& folder) {
  TestRun run(yaml, folder.path("run"), {"data.shuffle=false"});
  run.options.overwrite = true;
  REQUIRE(run() == RunStatus::done);
  std::vector<double> losses;
  for (const StepEvent& step : run.events.steps) losses.push_back(step.loss);
  for (const EvalEvent& evaluation : run.events.evaluations) losses.push_back(evaluation.loss);
  return losses;
}

}  // namespace

TEST_CASE("documents packed into a sample learn what they learn each in a sample of its own, filled up") {
  const OutputFolder folder;
  const std::string tokens = write_tokens(folder, "tokens.bin", three_documents);
  for (const std::string attention : {", causal: true", "", ", causal: true, window: 2"}) {
    INFO(attention);
    // One window, which one batch repeats, or one batch of three samples; the same targets count in both.
    const std::vector<double> packed = losses_of(documents_experiment(tokens, "", attention), folder);
    for (const std::string pad : {", pad_token: 10", ", pad_token: 9"}) {
      INFO(pad);
      const std::vector<double> padded = losses_of(documents_experiment(tokens, pad, attention), folder);
      REQUIRE(packed.size() == padded.size());
      for (std::size_t i = 0; i < packed.size(); ++i) CHECK(packed[i] == Approx(padded[i]).epsilon(2e-5));
    }
    std::string as_one_text = documents_experiment(tokens, "", attention);
    const std::string key = ", document_token: 9";
    as_one_text.erase(as_one_text.find(key), key.size());
    CHECK(losses_of(as_one_text, folder)[0] != Approx(packed[0]).epsilon(1e-3));
  }
}

TEST_CASE("documents need a model that attends, over the tokens of the data") {
  const auto message = [](const std::string& layers) -> std::string {
    try {
      TestRun(
          "data: {type: synthetic, sequence_length: 6, classes: 5, samples: 8, document_token: 2}\nmodel: {layers: [" +
              layers + ", linear: {out: 5}]}\ntrain: {batch_size: 4, steps: 1}\n",
          "unused")();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(
      message("embedding: {num: 5, dim: 4}"),
      Contains("test.yaml:1:1: error: data.document_token keeps attention within documents, and the model has no "
               "attention"));
  CHECK_THAT(
      message("embedding: {num: 5, dim: 4}, class_token, linear: {out: 12}, attention: {heads: 2}"),
      Contains("attention within documents needs the queries and keys of a network's tokens; there are 7 queries "
               "and 7 keys of 4 samples, and 6 tokens of 4"));
  CHECK_THAT(message("embedding: {num: 5, dim: 4}, class_token, position_embedding: {length: 7}"),
             Contains("positions within documents need a row for each token of the data 4×6; the input is 4×7×4"));
}
