#pragma once

#include "cuda/launch/stream.h"
#include "engine/ops/loss_statistics.h"

namespace trainer::cuda {

/// Adds the `statistics` of `num_terms` terms to those of one part in `kept`, and clears them. Bytes: the statistics
/// twice.
void keep_part_statistics(double* statistics, double* kept, int num_terms, int part, Stream stream);

/// Sums all parts of `kept` into `statistics`, x0 + x1, x2 + x3, …, then these, and clears them. Bytes: those of all
/// parts twice.
void sum_part_statistics(double* statistics, double* kept, int num_terms, int num_parts, Stream stream);

}  // namespace trainer::cuda
