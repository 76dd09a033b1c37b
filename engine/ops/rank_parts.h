#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/optimizer_update.h"
#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Parts of tensors]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Where ranks share a tensor (parallel.shard), each has a range of its elements, as they lie on the device: the tensor
// is cut into as many ranges of one size as there are ranks, a multiple of rank_part_elements, so that a range begins
// where a block of an 8-bit moment, of random bits and of memory does. The last ranges are shorter, or empty, so rank 0
// never has less than another, and ranks whose ranges are as long hold the same. The numbers of a range depend on
// nothing but the numbers of the tensor: sums by reduce_scatter are those of all_reduce, to the bit.

inline constexpr std::int64_t rank_part_elements = moment_block_elements;

/// Elements [begin, begin + count) of a tensor.
struct ElementRange {
  std::int64_t begin = 0, count = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// The range that the rank at a place of so many has of a tensor of so many elements, of which `unit` stay together.
ElementRange rank_part(std::int64_t num_elements, std::int64_t num_ranks, std::int64_t place,
                       std::int64_t unit = rank_part_elements);

struct RankPartsAttributes {
  RankGroup ranks{};
  std::int64_t place = 0;        ///< of this one among them
  std::int64_t num_tensors = 0;  ///< whole ones, among the operands
  bool adds = false;             ///< reduce_scatter: to what the parts hold
  bool starts = false;           ///< Note [Started exchanges] in finish_exchange.h
  std::int64_t unit = rank_part_elements;
  bool is_output = false;  ///< reduce_scatter: the part is an output, and no operand in front
  bool is_alike = false;   ///< all_gather: all ranks have the same gradient of what is gathered, else terms of it
  friend bool operator==(const RankPartsAttributes&, const RankPartsAttributes&) = default;
};

/// Elements of each rank's part that are summed at a time, of all tensors together.
std::int64_t reduce_scatter_stretch(const Op& op);

/// inputs: whole tensors of one of f32, f16 and bf16, then for each of which the rank has a part that part (count)
/// [modified: becomes the sum of it over `ranks`, or where `adds` has that added to it]; it may lie in its place in
/// the tensor. What else the tensors hold is left as it is. No outputs. 16-bit numbers are added in f32, in the order
/// of Note [Sums over ranks], and rounded once.
Op reduce_scatter_op(std::span<const TensorType> tensors, const RankGroup& ranks, std::int64_t place,
                     bool adds = false);

/// inputs: the parts that the rank has, of those tensors of which it has one; outputs: the whole tensors, in each of
/// which its part may lie in its place already.
Op all_gather_op(std::span<const TensorType> tensors, const RankGroup& ranks, std::int64_t place);

/// Of one tensor of which each rank has as many rows (of the last axis). inputs: whole; outputs: part (rows, C), the
/// sum over `ranks` of this rank's rows.
Op reduce_scatter_rows_op(const TensorType& whole, const RankGroup& ranks, std::int64_t place);
/// inputs: part (rows, C); outputs: whole.
Op all_gather_rows_op(const TensorType& whole, const RankGroup& ranks, std::int64_t place, bool is_alike);

}  // namespace trainer
