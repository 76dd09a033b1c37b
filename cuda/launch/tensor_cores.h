#pragma once

// Note [Products of a warp]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// Tensor cores multiply matrices of f16 or bf16 that lie in the registers of a warp, and add up in f32 (PTX: mma.sync
// m16n8k16). What a kernel has, beside what Note [Kernels on the host] names, is
//
//   multiply_add<T>(sums, a, b)          sums[i][j] += a[i] · b[j], of 16 × 16 and 16 × 8 numbers each
//   load_fragments(to, rows)             matrices from shared memory into the registers (ldmatrix)
//   load_transposed_fragments(to, rows)
//   pair_of<T>(low, high)                two numbers as a word of a fragment, rounded to nearest even
//   copy_ahead(to, from, is_there)       16 bytes to shared memory, or as many zeros, while the thread goes on
//   (cp.async) end_copies()                         what was copied ahead since the last is a group
//   wait_for_copies<n>()                 until all groups of this thread but the last n are there; others see them
//                                        behind a barrier
//   fast_exp2(x)                         2^x to two units of the last place, subnormal results as 0
//   computed_anew(i)                     i; what depends on it is computed there in each pass of a loop, where it would
//                                        else be kept in a register
//
// All 32 threads of a warp take part in the first three. Of a matrix of 8 × 8, lane 4 r + c has, as one word, the
// numbers of row r and columns 2 c and 2 c + 1. A fragment is four such matrices, 16 × 16 numbers in the order
//
//   of a:     rows 0 … 7 and columns 0 … 7, then rows 8 … 15 of these, then columns 8 … 15 of both
//   of two b: columns 0 … 7 and rows 0 … 7, then rows 8 … 15 of these, then columns 8 … 15 of both; what is a row
//             above is a column here: a word has two numbers of one column
//
// and four sums of a lane are row r, columns 2 c and 2 c + 1, then row r + 8 of these: so sums of two neighbours, by
// pair_of, are a fragment a of the next product. load_fragments reads the rows of matrix m from the addresses that
// lanes 8 m … 8 m + 7 give; transposed, what lies in a row in memory becomes a column.
//
// From compute capability 8.0 on; kernels with these are compiled for older ones too, and must not run there.

#include <cstdint>

#include "cuda/launch/launch.h"
#include "cuda/launch/tensor_core_architecture.h"

namespace trainer::cuda {

/// 16 × 16 numbers of 16 bits; see the Note.
struct Fragment {
  std::uint32_t words[4];
};
/// 16 × 8 sums.
struct FragmentSums {
  float values[4];
};

}  // namespace trainer::cuda

#if defined(__CUDACC__)
#include "cuda/launch/device_tensor_cores.h"
#else
#include "cuda/launch/host_tensor_cores.h"
#endif
