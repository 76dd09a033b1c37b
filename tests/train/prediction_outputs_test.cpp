#include "engine/train/prediction_outputs.h"

#include <catch2/catch.hpp>

#include <cmath>

#include "engine/errors.h"

using namespace trainer;
using Catch::Contains;

namespace {

Experiment of_loss(LossType loss, TaskTarget target = TaskTarget::categorical) {
  Experiment experiment;
  experiment.losses.front().type = loss;
  experiment.data.target_type = target;
  return experiment;
}

PredictionOutputs outputs_of(LossType loss, const Shape& shape, TaskTarget target = TaskTarget::categorical,
                             const Preprocessing& preprocessing = {}) {
  return describe_outputs(of_loss(loss, target), preprocessing, {DType::f32, shape});
}

std::vector<double> values_of(const PredictionOutputs& outputs, const std::vector<float>& logits) {
  std::vector<double> values(outputs.names.size());
  predicted_values(outputs, logits, values);
  return values;
}

}  // namespace

TEST_CASE("cross entropy chooses one of the classes, by their names where they have some") {
  Preprocessing preprocessing;
  preprocessing.classes = {"cat", "dog", "eel"};
  const PredictionOutputs outputs =
      outputs_of(LossType::cross_entropy, Shape{7, 3}, TaskTarget::categorical, preprocessing);
  CHECK(outputs.kind == PredictedKind::classes);
  CHECK(outputs.names == preprocessing.classes);
  CHECK(outputs.numbers_of_input() == 3);
  const std::vector<double> values = values_of(outputs, {1, 2, 4});
  const double sum = std::exp(1) + std::exp(2) + std::exp(4);
  CHECK(values[0] == Approx(std::exp(1) / sum).epsilon(1e-14));
  CHECK(values[2] == Approx(std::exp(4) / sum).epsilon(1e-14));
  CHECK(values[0] + values[1] + values[2] == Approx(1).epsilon(1e-14));
  // Far from 0 as well.
  CHECK(values_of(outputs, {3e38F, -3e38F, 0}) == std::vector<double>{1, 0, 0});
  CHECK(outputs_of(LossType::cross_entropy, Shape{7, 3}).names == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("binary cross entropy tells each label for itself") {
  Preprocessing preprocessing;
  preprocessing.classes = {"a", "b"};
  const PredictionOutputs outputs =
      outputs_of(LossType::bce_with_logits, Shape{7, 2}, TaskTarget::multi_label, preprocessing);
  CHECK(outputs.kind == PredictedKind::labels);
  CHECK(outputs.names == preprocessing.classes);
  const std::vector<double> values = values_of(outputs, {0, -2});
  CHECK(values[0] == 0.5);
  CHECK(values[1] == Approx(1 / (1 + std::exp(2.0))).epsilon(1e-14));
  CHECK(values_of(outputs, {-200, 200}) == std::vector<double>{std::exp(-200.0) / (1 + std::exp(-200.0)), 1});

  Preprocessing table;
  table.targets = {"won", "lost"};
  CHECK(outputs_of(LossType::bce_with_logits, Shape{7, 2}, TaskTarget::numeric, table).names == table.targets);
}

TEST_CASE("numbers are told in the units of the data") {
  Preprocessing preprocessing;
  preprocessing.targets = {"price", "size"};
  CHECK(values_of(outputs_of(LossType::mse, Shape{7, 2}, TaskTarget::numeric, preprocessing), {2, -1}) ==
        std::vector<double>{2, -1});
  preprocessing.target_mean = {1000, 0};
  preprocessing.target_std = {50, 2};
  const PredictionOutputs outputs = outputs_of(LossType::smooth_l1, Shape{7, 2}, TaskTarget::numeric, preprocessing);
  CHECK(outputs.kind == PredictedKind::numbers);
  CHECK(outputs.names == preprocessing.targets);
  CHECK(values_of(outputs, {2, -1}) == std::vector<double>{1100, -2});
  CHECK(outputs_of(LossType::l1, Shape{7, 1}, TaskTarget::numeric).names == std::vector<std::string>{"prediction"});
  CHECK(outputs_of(LossType::l1, Shape{7, 2}, TaskTarget::numeric).names ==
        std::vector<std::string>{"prediction_0", "prediction_1"});
  preprocessing.target_std = {50};
  CHECK_THROWS_AS(outputs_of(LossType::mse, Shape{7, 2}, TaskTarget::numeric, preprocessing), DataError);
}

TEST_CASE("dice chooses by the softmax, or, of one logit, by its sign") {
  const PredictionOutputs two = outputs_of(LossType::dice, Shape{7, 1});
  CHECK(two.kind == PredictedKind::classes);
  CHECK(two.names == std::vector<std::string>{"0", "1"});
  CHECK(two.numbers_of_input() == 1);
  const std::vector<double> values = values_of(two, {1});
  CHECK(values[1] == Approx(1 / (1 + std::exp(-1.0))).epsilon(1e-14));
  CHECK(values[0] == Approx(1 / (1 + std::exp(1.0))).epsilon(1e-14));
  CHECK(outputs_of(LossType::dice, Shape{7, 3}, TaskTarget::numeric).kind == PredictedKind::labels);
}

TEST_CASE("a class for each pixel is a mask") {
  const PredictionOutputs outputs = outputs_of(LossType::cross_entropy, Shape{5, 1, 3, 3});
  CHECK(outputs.kind == PredictedKind::class_map);
  CHECK(outputs.map_size == Pair{1, 3});
  CHECK(outputs.numbers_of_input() == 9);
  std::vector<std::uint8_t> mask(3);
  predicted_mask(outputs, std::vector<float>{0, 1, 2, 5, 5, 1, -1, -3, -2}, mask);
  CHECK(mask == std::vector<std::uint8_t>{2, 0, 0});

  const PredictionOutputs one = outputs_of(LossType::bce_with_logits, Shape{5, 1, 3, 1}, TaskTarget::numeric);
  CHECK(one.kind == PredictedKind::class_map);
  CHECK(one.names.size() == 2);
  predicted_mask(one, std::vector<float>{-1, 0, 1}, mask);
  CHECK(mask == std::vector<std::uint8_t>{0, 0, 1});
}

TEST_CASE("behind each token of a window stands a choice of the next one") {
  Experiment experiment = of_loss(LossType::cross_entropy);
  experiment.data.type = DataType::text;
  const PredictionOutputs outputs = describe_outputs(experiment, {}, {DType::f32, Shape{2, 5, 3}});
  CHECK(outputs.kind == PredictedKind::next_token);
  CHECK(outputs.window_length == 5);
  CHECK(outputs.numbers_of_input() == 15);
  CHECK(outputs.num_values() == 3);
  experiment.losses.front().type = LossType::mse;
  CHECK_THROWS_WITH(describe_outputs(experiment, {}, {DType::f32, Shape{2, 5, 3}}), Contains("several places"));

  const std::vector<float> logits = {1, 2, 4};
  const double sum = std::exp(1) + std::exp(2) + std::exp(4);
  CHECK(token_loss(logits, 1) == Approx(std::log(sum) - 2).epsilon(1e-14));
  CHECK(token_loss(std::vector<float>{-3e38F, 3e38F}, 1) == 0);
  CHECK(token_loss(std::vector<float>{-1e30F, 1e30F}, 0) == Approx(2e30));
  // Of the first two, by the sum of all.
  std::vector<double> values(2);
  token_probabilities(logits, values);
  CHECK(values[0] == Approx(std::exp(1) / sum).epsilon(1e-14));
  CHECK(values[1] == Approx(std::exp(2) / sum).epsilon(1e-14));
}

TEST_CASE("of a sum the first term tells that compares outputs") {
  Experiment experiment = of_loss(LossType::feature);
  experiment.losses.emplace_back().type = LossType::dice;
  experiment.losses.emplace_back().type = LossType::mse;
  CHECK(describe_outputs(experiment, {}, {DType::f32, Shape{2, 3}}).kind == PredictedKind::classes);
}

TEST_CASE("what fits neither a row nor a mask is refused") {
  CHECK_THROWS_WITH(outputs_of(LossType::mse, Shape{5, 4, 4, 3}, TaskTarget::numeric), Contains("images of numbers"));
  CHECK_THROWS_WITH(outputs_of(LossType::cross_entropy, Shape{5, 4, 3}), Contains("several places"));
  CHECK_THROWS_WITH(outputs_of(LossType::cross_entropy, Shape{5, 4, 4, 300}), Contains("256"));
}
