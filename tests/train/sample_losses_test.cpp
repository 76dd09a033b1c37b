#include "engine/train/sample_losses.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

namespace trainer {
namespace {

struct LossOfSamples {
  Experiment experiment;
  DataDescription data;

  /// Classes: i32 targets of this shape.
  explicit LossOfSamples(LossConfig loss, TensorType target = {DType::i32, {}}) {
    experiment.losses = {std::move(loss)};
    data.target = std::move(target);
  }
  template <typename Target>
  std::vector<SampleLoss> of(const std::vector<float>& logits, const std::vector<Target>& targets,
                             std::int64_t num_samples, std::int64_t most = 10) {
    SampleLosses losses(experiment, data, most);
    losses.add(logits, reinterpret_cast<const std::byte*>(targets.data()), num_samples);
    return losses.highest();
  }
};

LossConfig loss_of_type(LossType type) {
  LossConfig loss;
  loss.type = type;
  return loss;
}

const TensorType one_number{DType::f32, Shape{1}};

}  // namespace

TEST_CASE("the cross-entropy of each sample is found, the highest first, with the class that was taken for it") {
  LossOfSamples samples(loss_of_type(LossType::cross_entropy));
  const std::vector<SampleLoss> worst = samples.of<std::int32_t>({0, 0, 0, 3, 0, 0, 0, 0, 1000}, {1, 1, 2}, 3);
  REQUIRE(worst.size() == 3);
  CHECK(worst[0].index == 1);
  CHECK(worst[0].loss == Approx(std::log(std::exp(3.0) + 2)).epsilon(1e-12));
  CHECK(*worst[0].predicted == 0);
  CHECK(*worst[0].target == 1);
  CHECK(*worst[0].probability == Approx(std::exp(3.0) / (std::exp(3.0) + 2)));
  CHECK(worst[1].index == 0);
  CHECK(worst[1].loss == Approx(std::log(3.0)).epsilon(1e-12));
  CHECK(worst[2].loss == 0);
  CHECK(*worst[2].probability == 1);
}

TEST_CASE("smoothing, weights of classes and ignored targets are as in PyTorch's loss of single targets") {
  LossConfig loss = loss_of_type(LossType::cross_entropy);
  loss.label_smoothing = 0.3;
  loss.class_weights = {1, 2, 0.5};
  LossOfSamples samples(loss);
  const double whole = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(-1.0));
  const std::vector<SampleLoss> worst = samples.of<std::int32_t>({1, 2, -1}, {1}, 1);
  CHECK(
      worst[0].loss ==
      Approx(0.7 * 2 * (whole - 2) + 0.3 / 3 * (1 * (whole - 1) + 2 * (whole - 2) + 0.5 * (whole + 1))).epsilon(1e-12));

  LossConfig of_places = loss_of_type(LossType::cross_entropy);
  of_places.ignore_index = 7;
  LossOfSamples places(of_places, {DType::i32, Shape{3}});
  const std::vector<SampleLoss> mean = places.of<std::int32_t>({0, 0, 5, 0, 9, 9}, {1, 1, 7}, 1);
  CHECK(mean[0].loss == Approx((std::log(2.0) + std::log(std::exp(5.0) + 1)) / 2).epsilon(1e-12));
  CHECK_FALSE(mean[0].predicted);
  CHECK(places.of<std::int32_t>({0, 0, 5, 0, 9, 9}, {7, 7, 7}, 1)[0].loss == 0);
}

TEST_CASE("numbers cost what their losses say, and sums add up terms by their weights") {
  const auto cost = [](LossConfig loss, float predicted, float target) {
    return LossOfSamples(std::move(loss), one_number).of<float>({predicted}, {target}, 1)[0].loss;
  };
  CHECK(cost(loss_of_type(LossType::mse), 3, 1) == Approx(4));
  CHECK(cost(loss_of_type(LossType::l1), -1, 1.5F) == Approx(2.5));
  LossConfig smooth = loss_of_type(LossType::smooth_l1);
  smooth.beta = 2;
  CHECK(cost(smooth, 1, 0) == Approx(0.25));
  CHECK(cost(smooth, 5, 0) == Approx(4));
  CHECK(cost(loss_of_type(LossType::bce_with_logits), 2, 0.25F) ==
        Approx(-0.25 * std::log(1 / (1 + std::exp(-2.0))) - 0.75 * std::log(1 - 1 / (1 + std::exp(-2.0)))));
  CHECK(cost(loss_of_type(LossType::bce_with_logits), -800, 1) == Approx(800));

  LossOfSamples sum(loss_of_type(LossType::mse), {DType::f32, Shape{2}});
  sum.experiment.losses.push_back(loss_of_type(LossType::l1));
  sum.experiment.losses.back().weight = 10;
  const std::vector<SampleLoss> worst = sum.of<float>({1, 2}, {0, 0}, 1);
  CHECK(worst[0].loss == Approx((1 + 4) / 2.0 + 10 * (1 + 2) / 2.0));
  CHECK_FALSE(worst[0].number);
}

TEST_CASE("what no sample has alone is left out, and said to be") {
  LossOfSamples dice(loss_of_type(LossType::dice));
  CHECK_FALSE(SampleLosses(dice.experiment, dice.data, 1).has_any_term());
  dice.experiment.losses.push_back(loss_of_type(LossType::cross_entropy));
  const SampleLosses losses(dice.experiment, dice.data, 1);
  CHECK(losses.has_any_term());
  CHECK_FALSE(losses.has_all_terms());
}

TEST_CASE("of equal losses the first samples are kept, over all batches") {
  LossOfSamples samples(loss_of_type(LossType::mse), one_number);
  SampleLosses losses(samples.experiment, samples.data, 3);
  const std::vector<float> zeros(4, 0);
  for (const std::vector<float>& logits : {std::vector<float>{1, 2, 1, 1}, {2, 1, 3, 1}})
    losses.add(logits, reinterpret_cast<const std::byte*>(zeros.data()), 4);
  REQUIRE(losses.highest().size() == 3);
  CHECK(losses.highest()[0].index == 6);
  CHECK(losses.highest()[1].index == 1);
  CHECK(losses.highest()[2].index == 4);
  CHECK(losses.num_samples() == 8);
  CHECK(losses.sum() == Approx(1 + 4 + 1 + 1 + 4 + 1 + 9 + 1));
}

}  // namespace trainer
