#pragma once

#include <cstdint>
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

/// How an op is cut along the first dimension of its activations: slices of `slice_rows`, the last one may be shorter.
struct Slicing {
  std::int64_t num_rows = 1, slice_rows = 1;  ///< rows, or images
  std::vector<Part> inputs, outputs;

  std::int64_t num_slices() const { return (num_rows + slice_rows - 1) / slice_rows; }
  std::int64_t last_rows() const { return num_rows - (num_slices() - 1) * slice_rows; }
};

/// Whether any operand is f16 or bf16.
bool has_16_bit_operand(const Op& op);

/// The slices of an op with 16-bit operands.
Slicing slicing_of(const Op& op);

/// The f32 op that computes a slice of `rows` rows.
Op slice_of(const Op& op, const Slicing& slicing, std::int64_t rows);

}  // namespace trainer
