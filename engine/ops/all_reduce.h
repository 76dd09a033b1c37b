#pragma once

#include <cstdint>
#include <span>

#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Sums over ranks]
// ~~~~~~~~~~~~~~~~~~~~~~
// Ranks sum tensors by halves of what a sum over n ranks is made of: each is cut into n slices, every rank gets all
// others' numbers of its own slice, adds them up, and sends the sum to all. So each rank sends and receives
// 2 · (n − 1) / n of the bytes, which is the least that can be, and a sum has one order, that of a tree over the ranks:
// x0 + x1, x2 + x3, …, then these, so that all ranks hold the same bits, on every run. 16-bit numbers are added in f32
// and rounded once. Tensors are cut as one list, not each by itself, and in stretches, so that the scratch for what
// comes from others is bounded.

struct AllReduceAttributes {
  RankGroup ranks{};
  bool starts = false;   ///< Note [Started exchanges] in finish_exchange.h
  bool is_pair = false;  ///< two stages, which need be no group of a layout
  friend bool operator==(const AllReduceAttributes&, const AllReduceAttributes&) = default;
};

/// Scratch of a device that takes all that comes before it adds, for all other ranks together; of more than 16,384
/// ranks it is more.
inline constexpr std::int64_t most_all_reduce_scratch = std::int64_t{8} << 20;

/// Elements of the list that each rank sums at a time, of tensors of these types.
std::int64_t all_reduce_slice(const Op& op);

/// inputs: tensors of one of f32, f16, bf16, f64 and i64 [modified: become the sums over all of `ranks`]; no outputs.
Op all_reduce_op(std::span<const TensorType> tensors, const RankGroup& ranks);
/// The same of two stages of a pipeline, which use one weight.
Op pair_sum_op(std::span<const TensorType> tensors, std::int64_t first, std::int64_t second);

}  // namespace trainer
