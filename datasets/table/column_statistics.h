#pragma once

#include <cstdint>
#include <vector>

#include "datasets/table/number_blocks.h"

namespace trainer {

// Note [Standardised features]
// Each feature becomes (x − mean) / std with the mean and the population standard deviation of the training samples
// (those left after a split and by data.samples); validation uses the same two numbers. A column that is constant in
// training becomes 0. All of it is done in f64, on differences to the column's first value: only the result is rounded
// to f32, so that numbers far from zero, such as timestamps, keep what tells them apart. Numeric targets are left as
// they are.

struct Standard {
  std::vector<double> origin;     ///< by feature: the first value
  std::vector<double> mean, std;  ///< by feature, of the differences to the origin
};

/// Mean and standard deviation over the given rows; see Note [Standardised features].
Standard standard_of(const NumberBlocks& features, std::size_t num_features, const std::vector<std::uint32_t>& rows);

}  // namespace trainer
