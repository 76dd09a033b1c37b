#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/ops/loss_statistics.h"

namespace trainer::cuda {

/// What one block's part of the batch adds to the loss statistics.
struct LossPart {
  double statistics[num_loss_statistics];
};

/// Adds the parts to the `statistics` of a term of the loss, in an order that depends on their number alone.
void add_loss_parts(const LossPart* parts, std::int64_t num_parts, double* statistics, int term, Stream stream);

/// Clears the statistics of `num_terms` terms, but of the first where `keeps_non_finite` for a loss_sum that is not
/// finite; where num_counted is NaN it stays, and loss_sum becomes NaN. Bytes: the statistics once.
void start_loss_statistics(double* statistics, int num_terms, bool keeps_non_finite, Stream stream);

}  // namespace trainer::cuda
