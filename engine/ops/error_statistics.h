#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Elements of the f64 vector into which error_statistics adds its batch.
enum ErrorStatistic : int {
  absolute_error_sum,  ///< Σ |prediction − target|
  squared_error_sum,   ///< Σ (prediction − target)²
  target_sum,
  squared_target_sum,
  num_error_numbers,  ///< numbers that the sums are over
  num_error_statistics,
};

/// What the mean absolute error and R² of predicted numbers follow from.
/// inputs: prediction f32 (N, …), targets f32 of the same shape, sums f64 (num_error_statistics) [added to]; no
/// outputs.
Op error_statistics_op(const TensorType& prediction, const TensorType& targets);

}  // namespace trainer
