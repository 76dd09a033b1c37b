#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

/// Element i is kept where PhiloxStream{seed, stream, pass}.uniform(i) ≥ p and then divided by 1 − p; seed and pass
/// are StepScalars'. Nothing is stored: backward draws the same numbers again.
struct DropoutAttributes {
  double p = 0.5;
  std::uint32_t stream = 0;  ///< tells the dropout layers of a model apart
  /// Where other ranks have the other columns (of the last axis): how many there are, of which x has those from
  /// first_column on; element i is that of the whole tensor. 0: x has all.
  std::int64_t all_columns = 0, first_column = 0;
  /// Where other ranks have other rows: how many each sample has, of which x has those of all samples from first_row
  /// on. 0: x has all of a number of samples.
  std::int64_t sample_rows = 0, first_row = 0;
  friend bool operator==(const DropoutAttributes&, const DropoutAttributes&) = default;
};

/// The comparison in whole numbers: kept are words whose upper 24 bits reach `threshold`, and what is kept is
/// multiplied by `scale`.
struct DropoutRule {
  std::uint32_t threshold = 0;
  float scale = 1;
};
DropoutRule dropout_rule(double p);

/// inputs: x; outputs: y, which may be stored over x.
Op dropout_op(const TensorType& x, const DropoutAttributes& attributes);
/// inputs: dy; outputs: dx, which may be stored over dy.
Op dropout_backward_op(const Op& dropout);

}  // namespace trainer
