#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

const std::string loss_model = "model: {layers: [flatten, linear: {out: 10}]}\n";

std::string refusal(const std::string& loss, const std::vector<std::string>& overrides = {}) {
  try {
    parse_experiment(loss_model + loss, "a.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a loss may be a list: words, maps and one-key maps, each with a weight") {
  const Experiment experiment = parse_experiment(
      loss_model +
          "loss: [cross_entropy, {type: dice, weight: 0.5, smooth: 1}, {cross_entropy: {label_smoothing: 0.1}}]\n",
      "a.yaml");
  REQUIRE(experiment.losses.size() == 3);
  CHECK((experiment.losses[0].type == LossType::cross_entropy && experiment.losses[0].weight == 1));
  CHECK((experiment.losses[1].type == LossType::dice && experiment.losses[1].weight == 0.5));
  CHECK(experiment.losses[1].smooth == 1);
  CHECK(experiment.losses[2].label_smoothing == 0.1);
  CHECK(experiment.losses[1].location.line == 2);
  // What is resolved reads back, and is one loss where one is.
  const Experiment again = parse_experiment(resolved_yaml(experiment), "b.yaml");
  CHECK(resolved_yaml(again) == resolved_yaml(experiment));
  CHECK_THAT(resolved_yaml(experiment), Contains("weight: 0.5"));
  const Experiment one = parse_experiment(loss_model + "loss: [mse]\n", "a.yaml");
  CHECK(one.losses.front().type == LossType::mse);
  CHECK_THAT(resolved_yaml(one), Contains("loss:\n  type: mse\n"));
}

TEST_CASE("a term of a loss is replaced by its number, and a list by another loss") {
  const std::string sum = loss_model + "loss: [cross_entropy, {dice: {}}]\n";
  const auto losses = [&](const std::vector<std::string>& overrides) {
    return parse_experiment(sum, "a.yaml", overrides).losses;
  };
  CHECK(losses({"loss.0.weight=2.5"})[0].weight == 2.5);
  CHECK(losses({"loss.1.weight=0.25", "loss.1.smooth=3"})[1].smooth == 3);
  CHECK(losses({"loss=dice"}).size() == 1);
  CHECK(losses({"loss=[dice, cross_entropy, dice]"}).size() == 3);
  CHECK_THAT(refusal("loss: [cross_entropy, dice]\n", {"loss.2.weight=1"}), Contains("'loss' is a list of 2 elements"));
}

TEST_CASE("terms are checked as losses are, each in its place") {
  CHECK_THAT(refusal("loss: [cross_entropy, {type: dice, beta: 1}]\n"),
             Contains("a.yaml:2:36: error: 'beta' does not apply to 'dice'"));
  CHECK_THAT(refusal("loss: [{type: crossentropy}]\n"), Contains("did you mean 'cross_entropy'?"));
  CHECK_THAT(refusal("loss: [cross_entropy, {type: dice, wieght: 1}]\n"), Contains("unknown key 'wieght'"));
  CHECK_THAT(refusal("loss: [cross_entropy, {type: dice, weight: -1}]\n"), Contains("is below 0"));
  CHECK_THAT(refusal("loss: []\n"), Contains("a loss of 0 terms"));
  CHECK_THAT(refusal("loss: [dice, dice, dice, dice, dice, dice, dice, dice, dice]\n"), Contains("1 to 8 terms"));
  CHECK_THAT(refusal("loss: [cross_entropy, [dice]]\n"), Contains("this is no term of a loss"));
  CHECK_THAT(refusal("loss: [{type: dice, weight: 0}, {type: dice, weight: 0}]\n"), Contains("a weight of 0"));
  CHECK_THAT(refusal("loss: [cross_entropy, {type: dice, ignore_index: 255}]\n"), Contains("ignore -100 and 255"));
  CHECK_THAT(refusal("loss: [cross_entropy, {cross_entropy: {class_weights: [0, 0]}}]\n"),
             Contains("all class weights are 0"));
  CHECK_THAT(refusal("loss: {type: mse, terms: [mse, l1]}\n"),
             Contains("'loss.type' is for one loss, and 'loss.terms' are several"));
  CHECK_THAT(refusal("loss: {terms: mse}\n"), Contains("the terms of a loss are a list"));
  CHECK_THAT(refusal("loss: {type: dice, smooth: 0}\n"), Contains("is not above 0"));
  CHECK_THAT(refusal("loss: [l1, mse]\ncheckpoint: {best: dice}\n"), Contains("this loss has no dice"));
  CHECK_THAT(refusal("loss: dice\ncheckpoint: {best: top5}\n"), Contains("dice has no top5"));
}

TEST_CASE("a loss on features names its network as a model is named, alone or as a term, and reads back") {
  const std::string network = "network: {file: models/vgg16.yaml, with: {width: 4}, weights: {file: vgg.safetensors}}";
  const std::string keys = "type: feature, " + network + ", layers: [features.3, features.8]";
  for (const std::string& loss : {"{" + keys + "}", "[l1, {" + keys + ", weight: 0.1, layer_weights: [1, 0.5]}]"}) {
    const Experiment experiment = parse_experiment(loss_model + "loss: " + loss + "\n", "a.yaml");
    const FeatureConfig& feature = experiment.losses.back().feature;
    CHECK((feature.network.size() == 4 && feature.network.front().name == "features"));
    CHECK((feature.weights.file == "vgg.safetensors" && !feature.weights.strict));
    CHECK(feature.layers == std::vector<std::string>{"features.3", "features.8"});
    CHECK(feature.layer_weight(1) == (experiment.losses.size() > 1 ? 0.5 : 1));
    const Experiment again = parse_experiment(resolved_yaml(experiment), "b.yaml");
    CHECK(resolved_yaml(again) == resolved_yaml(experiment));
    CHECK(again.losses.back().feature.network.size() == 4);
  }
  const Experiment wide = parse_experiment(loss_model + "loss: [l1, {" + keys + "}]\n", "a.yaml",
                                           {"loss.1.network.with={width: 8}", "loss.1.distance=mse"});
  CHECK(std::get<Conv2dSpec>(std::get<SequentialSpec>(wide.losses[1].feature.network[0].spec).layers[0].spec).out == 8);
  CHECK(wide.losses[1].feature.distance == FeatureDistance::mse);
}

TEST_CASE("a loss on features is told what it lacks, each at its place") {
  const std::string network = "network: {layers: [conv2d: {out: 2, name: a}], weights: {file: w.safetensors}}";
  const auto of = [&](const std::string& keys) { return refusal("loss: {type: feature, " + keys + "}\n"); };
  CHECK_THAT(of("layers: [a]"), Contains("a.yaml:2:1: error: a loss on features needs 'network'"));
  CHECK_THAT(of("network: {layers: [conv2d: {out: 2}]}, layers: [a]"),
             Contains("a.yaml:2:23: error: a loss on features needs 'network.weights.file'"));
  CHECK_THAT(of(network), Contains("needs 'layers', whose outputs it compares"));
  CHECK_THAT(of(network + ", layers: [a, a]"), Contains("'layers' names 'a' twice"));
  CHECK_THAT(of(network + ", layers: [a], layer_weights: [1, 2]"),
             Contains("'layer_weights' has 2 values for 1 layers"));
  CHECK_THAT(of(network + ", layers: [a], layer_weights: [0]"), Contains("all of 'layer_weights' are 0"));
  CHECK_THAT(of(network + ", layers: [a], mean: 0.5"), Contains("'mean' needs 'std'"));
  CHECK_THAT(of("network: {file: models/none.yaml, weights: {file: w}}, layers: [a]"), Contains("models/none.yaml"));
  CHECK_THAT(of("network: {layers: [conv2d: {out: 2}], with: {a: 1}, weights: {file: w}}, layers: [a]"),
             Contains("'loss.network.with' has no parameters"));
  CHECK_THAT(of(network + ", layers: [a, b, c, d, e, f, g, h, i]"), Contains("a loss of 9 terms"));
  CHECK_THAT(refusal("loss: {type: l1, layers: [a]}\n"), Contains("'loss.layers' does not apply to 'loss: l1'") ||
                                                             Contains("'loss.layers' does not apply to 'l1'"));
  CHECK_THAT(refusal("loss: [l1, {type: feature, " + network + "}]\n"),
             Contains("a.yaml:2:12: error: a loss on features needs 'layers'"));
}
