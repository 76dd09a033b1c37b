#include "engine/train/counted_metrics.h"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>

using namespace trainer;

TEST_CASE("IoU and dice follow from a confusion matrix, class by class, by hand") {
  // Class 3 occurs neither as truth nor as guess; class 2 is guessed alone.
  const CountedMetrics metrics = metrics_of_confusion({6, 1, 1, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, -100);
  CHECK(metrics.accuracy == Approx(14.0 / 18));
  REQUIRE(metrics.class_iou.size() == 4);
  CHECK(metrics.class_iou[0] == Approx(6.0 / 10));
  CHECK(metrics.class_iou[1] == Approx(8.0 / 11));
  CHECK(metrics.class_iou[2] == 0);
  CHECK(std::isnan(metrics.class_iou[3]));
  CHECK(metrics.class_dice[0] == Approx(12.0 / 16));
  CHECK(metrics.class_dice[1] == Approx(16.0 / 19));
  CHECK(metrics.mean_iou == Approx((0.6 + 8.0 / 11) / 3));
  CHECK(metrics.dice == Approx((0.75 + 16.0 / 19) / 3));
  // Guesses of a class that is ignored do not count in the mean.
  const CountedMetrics ignoring = metrics_of_confusion({6, 1, 1, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 2);
  CHECK(ignoring.mean_iou == Approx((0.6 + 8.0 / 11) / 2));
}

TEST_CASE("without a counted target nothing has a value") {
  const CountedMetrics metrics = metrics_of_confusion({0, 0, 0, 0}, 2, -100);
  CHECK_FALSE((metrics.accuracy || metrics.mean_iou || metrics.dice));
  CHECK_FALSE(metrics_of_errors(std::array{0.0, 0.0, 0.0, 0.0, 0.0}).mae.has_value());
}

TEST_CASE("the mean absolute error and R² follow from sums, by hand") {
  // Targets 1, 2, 3; predictions 1, 3, 5.
  const CountedMetrics metrics = metrics_of_errors(std::array{3.0, 5.0, 6.0, 14.0, 3.0});
  CHECK(metrics.mae == Approx(1));
  CHECK(metrics.r2 == Approx(1 - 5.0 / 2));
  // Of targets that are all 0.1 no variance is left to explain, whatever rounding leaves of it.
  const double tenth = static_cast<double>(0.1F);
  CHECK_FALSE(metrics_of_errors(std::array{0.5, 0.3, 3 * tenth, 3 * tenth * tenth, 3.0}).r2.has_value());
}
