#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/ops/op.h"

namespace trainer {

// Note [16-bit operands]
// ~~~~~~~~~~~~~~~~~~~~~~
// The CPU stores f16 and bf16 and computes in f32: machines without instructions for them save memory, not time. Ops
// that treat each element by itself convert it on the way, without scratch (engine/cpu/element_loop.h), batch norm
// some rows for each thread (engine/cpu/row_pieces.h), and layer norm with a sum a row or two. The others run their
// f32 kernel: its 16-bit inputs are widened into the workspace and its outputs narrowed from there. So that this
// scratch is a fraction of what 16 bit saves, an op that treats each row or image by itself goes through them slice
// by slice, with scratch for one slice beside the weights; a gradient of weights is summed over the slices in f32
// and rounded once. The slices are a function of the op alone, and one follows the other, so results do not depend
// on the number of threads where the f32 kernel's do not, and an output may take over an input's memory as in f32.

/// What a slice has of an operand.
enum class Part : std::uint8_t {
  whole,  ///< all of it: weights; everything where the op is one slice
  rows,   ///< the slice's rows or images
  sum,    ///< outputs only: a term of it, the sum over all slices: gradients of weights
};

/// How an op with 16-bit operands may be cut along the first dimension of its activations.
struct Cut {
  std::int64_t num_rows = 1;  ///< rows, or images
  std::vector<Part> inputs, outputs;
  std::int64_t least_rows = 1;  ///< that a slice has, where there are as many
  bool adds_itself = false;     ///< the f32 kernel adds to sums that are inputs behind its own
};

/// The rule of an op; nothing where its kernel takes 16-bit operands as they are.
using CutRule = std::optional<Cut> (*)(const Op&);

// Rules of several ops; the others stand beside their kernels.
std::optional<Cut> takes_16_bit(const Op& op);
/// What mixes rows, or is not worth a rule: one slice.
std::optional<Cut> cut_nowhere(const Op& op);
/// Every operand has its images.
std::optional<Cut> cut_by_image(const Op& op);

/// A layer of weights, by its rows or images: x, then what is whole; y, then what is `behind_output`.
Cut cut_forward(const Op& op, std::int64_t num_rows, Part behind_output);
/// The gradient of its input: dy, weights, then more of the size of dy.
Cut cut_input_gradient(const Op& op, std::int64_t num_rows);
/// The gradient of its weights: dy, x, then what each slice adds to, in f32.
Cut cut_weight_gradient(const Op& op, std::int64_t num_rows);
/// `count` operands: the first `num_first` are `first`, those behind them `others`.
std::vector<Part> parts(std::size_t count, std::size_t num_first, Part first, Part others);

/// A cut with its slices of `slice_rows`; the last one may be shorter.
struct Slicing : Cut {
  std::int64_t slice_rows = 1;

  std::int64_t num_slices() const { return (num_rows + slice_rows - 1) / slice_rows; }
  std::int64_t last_rows() const { return num_rows - (num_slices() - 1) * slice_rows; }
};

/// As few slices as keep what is widened of each small, and those as alike as can be.
Slicing slices_of(const Op& op, Cut cut);

/// The f32 op that computes a slice of `rows` rows.
Op slice_of(const Op& op, const Slicing& slicing, std::int64_t rows);

}  // namespace trainer
