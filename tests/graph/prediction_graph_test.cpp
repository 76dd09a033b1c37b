#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/graph/prediction_graph.h"

using namespace trainer;

namespace {

Experiment predicting() {
  return parse_experiment(
      "data: {type: synthetic, shape: [4, 4, 2], classes: 3, samples: 64}\n"
      "model: {layers: [{conv2d: {out: 5, kernel: 3}}, batchnorm2d, relu, {dropout: {p: 0.5}}, flatten, "
      "{linear: {out: 3}}]}\n",
      "predicting.yaml");
}

DataDescription images() {
  DataDescription data;
  InputDescription& input = data.inputs.emplace_back();
  input.type = {DType::u8, Shape{4, 4, 2}};
  input.mean = {0.5F, 0.25F};
  input.std = {1, 2};
  return data;
}

}  // namespace

TEST_CASE("a model predicts without targets, loss and dropout, by the parameters that it trains") {
  const Graph graph = build_prediction_graph(predicting(), images(), 7);
  CHECK(graph.mode == GraphMode::evaluation);
  CHECK(graph.targets == -1);
  CHECK(graph.loss_statistics == -1);
  CHECK(graph.metric_counts == -1);
  CHECK(graph.fields() == graph.inputs);
  CHECK(graph.values[graph.inputs.front()].type == TensorType{DType::u8, Shape{7, 4, 4, 2}});
  CHECK(graph.values[graph.prediction].type == TensorType{DType::f32, Shape{7, 3}});
  CHECK(graph.nodes.back().outputs.front() == graph.prediction);
  for (const GraphNode& node : graph.nodes) {
    CHECK(node.op.kind != OpKind::cross_entropy);
    CHECK(node.op.kind != OpKind::dropout);
  }

  DataDescription data = images();
  data.num_outputs = 3;
  data.num_train = 64;
  const Graph evaluation = build_graph(predicting(), data, 7, GraphMode::evaluation);
  REQUIRE(evaluation.parameters.size() == graph.parameters.size());
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    CHECK(evaluation.parameters[i].name == graph.parameters[i].name);
    CHECK(evaluation.parameters[i].type == graph.parameters[i].type);
  }
}

TEST_CASE("a model that does not fit its input is refused at the layer's line") {
  DataDescription data = images();
  data.inputs.front().type.shape = Shape{2, 2, 2};
  try {
    build_prediction_graph(predicting(), data, 1);
    FAIL("it was taken");
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Catch::Contains("predicting.yaml:2:"));
  }
}
