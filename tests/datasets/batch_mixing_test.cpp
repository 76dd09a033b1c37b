#include "datasets/batch_mixing.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace trainer;

namespace {

std::vector<TransformSpec> mixup(double alpha, double p = 1) { return {{"mixup", MixUpSpec{alpha, p}}}; }
std::vector<TransformSpec> cutmix(double alpha, double p = 1) { return {{"cutmix", CutMixSpec{alpha, p}}}; }

bool is_whole(const MixedSample& sample) { return sample == MixedSample{}; }

}  // namespace

// Of Beta(a, a) the mean is 1/2, the variance 1 / (4 (2a + 1)).
TEST_CASE("shares have the mean and the variance of their distribution") {
  for (const double alpha : {1e-6, 0.01, 0.2, 0.5, 1.0, 2.0, 30.0}) {
    const BatchMixing mixing(mixup(alpha), {8, 8}, 3);
    constexpr int num_batches = 20'000;
    double sum = 0, square = 0;
    for (int batch = 0; batch < num_batches; ++batch) {
      const MixedSample drawn = mixing.draw(batch % 7, batch);
      REQUIRE(drawn.share == drawn.blend);
      REQUIRE((drawn.share >= 0 && drawn.share <= 1));
      sum += static_cast<double>(drawn.share);
      square += static_cast<double>(drawn.share) * static_cast<double>(drawn.share);
    }
    const double mean = sum / num_batches, variance = square / num_batches - mean * mean;
    INFO("alpha " << alpha << ", mean " << mean << ", variance " << variance);
    const double expected = 1 / (4 * (2 * alpha + 1));
    CHECK(std::abs(mean - 0.5) < 5 * std::sqrt(expected / num_batches));
    CHECK(std::abs(variance / expected - 1) < 0.06);
  }
}

// Beta(1, 1) is uniform, so its tenths are alike.
TEST_CASE("shares of alpha 1 are uniform") {
  const BatchMixing mixing(mixup(1), {8, 8}, 5);
  std::vector<int> counts(10);
  for (int batch = 0; batch < 50'000; ++batch)
    ++counts[static_cast<std::size_t>(std::min(9.0F, 10 * mixing.draw(0, batch).share))];
  for (const int count : counts) CHECK(std::abs(count - 5000) < 350);
}

TEST_CASE("a box lies within the image and the share is what it leaves") {
  const BatchMixing mixing(cutmix(1), {37, 61}, 7);
  int num_cut_off = 0;
  double sum = 0;
  for (int batch = 0; batch < 5000; ++batch) {
    const MixedSample drawn = mixing.draw(1, batch);
    REQUIRE(drawn.blend == 1);
    REQUIRE((0 <= drawn.top && drawn.top <= drawn.bottom && drawn.bottom <= 37));
    REQUIRE((0 <= drawn.left && drawn.left <= drawn.right && drawn.right <= 61));
    const int area = (drawn.bottom - drawn.top) * (drawn.right - drawn.left);
    REQUIRE(drawn.share == static_cast<float>(1 - area / (37.0 * 61.0)));
    if (drawn.top == 0 || drawn.left == 0 || drawn.bottom == 37 || drawn.right == 61) ++num_cut_off;
    sum += static_cast<double>(drawn.share);
  }
  CHECK(num_cut_off > 1000);
  // Half of the area on average, but for what lies outside.
  CHECK(sum / 5000 > 0.55);
  CHECK(sum / 5000 < 0.85);
}

TEST_CASE("what is drawn depends on seed, epoch and batch alone") {
  const BatchMixing mixing(mixup(1), {8, 8}, 7);
  CHECK(mixing.draw(2, 3) == BatchMixing(mixup(1), {8, 8}, 7).draw(2, 3));
  CHECK_FALSE(mixing.draw(2, 3) == mixing.draw(3, 2));
  CHECK_FALSE(mixing.draw(2, 3) == mixing.draw(2, 4));
  CHECK_FALSE(mixing.draw(2, 3) == BatchMixing(mixup(1), {8, 8}, 8).draw(2, 3));
}

TEST_CASE("p is of batches, and of two transforms each batch gets one") {
  const BatchMixing some(mixup(1, 0.3), {8, 8}, 7), none(cutmix(1, 0), {8, 8}, 7);
  std::vector<TransformSpec> list = mixup(1);
  list.push_back(cutmix(1)[0]);
  const BatchMixing either(list, {64, 64}, 7);
  int num_whole = 0, num_blended = 0;
  for (int batch = 0; batch < 4000; ++batch) {
    if (is_whole(some.draw(0, batch))) ++num_whole;
    CHECK(is_whole(none.draw(0, batch)));
    const MixedSample drawn = either.draw(0, batch);
    if (drawn.blend < 1) {
      ++num_blended;
      REQUIRE(drawn.right == 0);
    }
  }
  CHECK(std::abs(num_whole - 2800) < 150);
  CHECK(std::abs(num_blended - 2000) < 170);
}

TEST_CASE("the partner of a sample is the one before it") {
  const MixedSample drawn{.share = 0.25F, .blend = 0.25F};
  const std::vector<std::int32_t> classes = {4, 5, 6};
  std::vector<MixedSample> samples(3);
  BatchMixing::pair(drawn, classes, samples);
  CHECK(samples[0].partner == 2);
  CHECK(samples[0].partner_class == 6);
  CHECK(samples[1].partner == 0);
  CHECK(samples[1].partner_class == 4);
  CHECK(samples[2].partner == 1);
  CHECK(samples[2].partner_class == 5);
  CHECK(samples[2].share == 0.25F);
  BatchMixing::pair(drawn, {}, std::span(samples).first(1));
  CHECK(samples[0].partner == 0);
}

TEST_CASE("numbers to predict are mixed with those before them") {
  std::vector<float> targets = {1, 0, 0, 1, 1, 1};
  BatchMixing::mix(0.75F, 2, targets);
  CHECK(targets == std::vector<float>{1, 0.25F, 0.25F, 0.75F, 0.75F, 1});
  BatchMixing::mix(1, 2, targets);
  CHECK(targets == std::vector<float>{1, 0.25F, 0.25F, 0.75F, 0.75F, 1});
  std::vector<float> alone = {3};
  BatchMixing::mix(0.25F, 1, alone);
  CHECK(alone == std::vector<float>{3});
}
