#pragma once

#include "engine/config/loss_terms.h"

namespace trainer {

struct Op;

/// Sums of f64 have an order, too: where a batch is computed in parts (parallel.deterministic), what the loss ops add
/// up is kept for each part by itself, over batches, and in the end added up as gradients are. The sums of
/// error_statistics are as many as those of one term.
struct PartStatisticsAttributes {
  int num_terms = 1;
  int num_parts = 1;  ///< that are kept, a power of two
  int part = 0;       ///< of keep_part_statistics
  friend bool operator==(const PartStatisticsAttributes&, const PartStatisticsAttributes&) = default;
};

/// inputs: loss statistics [cleared], those of all parts (num_parts · loss statistics) [the part's become more by what
/// was cleared]; no outputs.
Op keep_part_statistics_op(const PartStatisticsAttributes& attributes);

/// inputs: loss statistics [become the sum of all parts: x0 + x1, x2 + x3, …, then these], those of all parts
/// [cleared]; no outputs.
Op sum_part_statistics_op(const PartStatisticsAttributes& attributes);

}  // namespace trainer
