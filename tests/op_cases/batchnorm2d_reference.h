#pragma once

#include <string>
#include <vector>

#include "tests/op_cases/op_case.h"

// Batch norms in double, for the cases of all their ops.

namespace trainer {

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Mean and biased variance.
struct Moments {
  double mean = 0, variance = 0;
};
/// Over `count` values that lie `stride` apart.
Moments moments_of(const Values& x, std::int64_t first, std::int64_t stride, std::int64_t count);
Values means_of(const std::vector<Moments>& moments);
Values rstds_of(const std::vector<Moments>& moments, double eps);
/// As an f32 buffer would hold them.
Values as_f32(Values values);

struct BatchNormCase {
  std::string name;
  TensorType x;
  BatchNorm2dAttributes attributes;
  double offset = 0;  ///< added to x: a mean that is large against the deviation
};

std::vector<BatchNormCase> batchnorm_cases();
Op forward_op(const BatchNormCase& c);
/// x, running mean, running variance[, weight, bias][, addend][, Σx, Σx²]
std::vector<Values> inputs_of(const BatchNormCase& c);
std::int64_t rows_of(const BatchNormCase& c);
/// By given moments.
Values apply_batchnorm(const BatchNormCase& c, const std::vector<Values>& inputs, const std::vector<Moments>& moments);
std::vector<Moments> batch_moments(const BatchNormCase& c, const Values& x);
/// By those of the batch.
Reference training_reference(const BatchNormCase& c);

}  // namespace trainer
