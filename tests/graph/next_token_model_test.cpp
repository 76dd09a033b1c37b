#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/graph/generation_graph.h"
#include "engine/graph/prediction_graph.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Why a model of 50 tokens in windows of 12 tells nothing of texts; empty: it does.
std::string refusal_of_model(const std::string& model, const std::string& more = "", const std::string& of_data = "") {
  const Experiment experiment = parse_experiment("data: {type: tokens, train: a.bin, classes: 50, sequence_length: 12" +
                                                     of_data + "}\nmodel: " + model + "\n" + more,
                                                 "test.yaml");
  DataDescription data;
  InputDescription& input = data.inputs.emplace_back();
  input.type = {DType::i32, Shape{12}};
  input.num_indices = 50;
  try {
    require_next_token_model(experiment, data);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string of_layers(const std::string& layers) { return refusal_of_model("{layers: [" + layers + "]}"); }

}  // namespace

TEST_CASE("models tell of texts whose tokens see nothing behind them") {
  const std::string gpt = "{file: models/gpt2.yaml, with: {depth: 1, heads: 2, width: 8, vocabulary: 50, length: 12}}";
  CHECK(refusal_of_model(gpt).empty());
  CHECK(refusal_of_model(gpt, "", ", document_token: 3").empty());
  CHECK(refusal_of_model(gpt, "", ", document_token: 3, pad_token: 4").empty());
  CHECK(refusal_of_model(gpt, "train: {amp: bf16}\n").empty());
  CHECK(of_layers("{embedding: {num: 50, dim: 4}}, {linear: {out: 50}}").empty());
}

TEST_CASE("a model that sees what it is to guess is refused at the layer") {
  const std::string gpt = "{file: models/gpt2.yaml, with: {depth: 1, heads: 2, width: 8, vocabulary: 50, length: 12}}";
  const std::string attention =
      "{embedding: {num: 50, dim: 4}}, {linear: {out: 12}}, {attention: {heads: 2}}, {linear: {out: 50}}";
  CHECK_THAT(of_layers(attention),
             Contains("test.yaml:2:") && Contains("sees the tokens behind each") && Contains("causal: true"));
  CHECK_THAT(refusal_of_model(gpt, "", ", document_token: 1, mask_token: 2"), Contains("data.mask_token"));
  CHECK_THAT(of_layers("{embedding: {num: 50, dim: 4}}, {linear: {out: 49}}"),
             Contains("test.yaml:2:") && Contains("logits of 49 tokens, and its data has 50"));
  CHECK_THAT(of_layers("{embedding: {num: 50, dim: 4}}, flatten, {linear: {out: 50}}"),
             Contains("test.yaml:2:") && Contains("no logits of a next token behind each token"));
}
