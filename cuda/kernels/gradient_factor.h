#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"
#include "engine/ops/gradient_factor.h"

namespace trainer::cuda {

struct GradientView {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType type = DType::f32;  ///< f32, f16 or bf16
};

/// An f64 for each chunk of 4096 elements of a gradient.
constexpr std::int64_t gradient_factor_chunks(std::int64_t count) { return (count + 4095) / 4096; }

/// And for each 256 of them, where squares are added exactly.
constexpr std::int64_t exact_squares_workspace_bytes(std::int64_t num_chunks) {
  return num_chunks * (4096 / exact_block_elements) * std::int64_t{sizeof(double)};
}

/// factor = num_gradient_factors of engine/ops/gradient_factor.h over all gradients together. `loss_scale`: in device
/// memory, where the attributes are `scaled`, else not read. Squares are summed in f64, in an order that depends on the
/// counts and types alone. Workspace: 8 bytes for each of the gradient_factor_chunks of every gradient.
/// Launches: for each type one for up to 640 gradients, and one that adds up. Bytes: the gradients once. FLOPs: 2 an
/// element.
void gradient_factor(std::span<const GradientView> gradients, const GradientFactorAttributes& attributes,
                     const double* loss_scale, float* factor, void* workspace, Stream stream);

/// squares[0] = the sum of the squares of all gradients, in the same order, by the same workspace.
void gradient_squares(std::span<const GradientView> gradients, double* squares, void* workspace, Stream stream);

/// squares = the exact sum (engine/ops/exact_sum.h) of the squares of all gradients. Workspace: 16 times as much.
/// Launches: as many. Bytes: the gradients once.
void exact_gradient_squares(std::span<const GradientView> gradients, std::int64_t* squares, void* workspace,
                            Stream stream);

/// The factor of an exact sum of squares. Launches: 1.
void gradient_factor_of_exact_squares(const std::int64_t* squares, const GradientFactorAttributes& attributes,
                                      const double* loss_scale, float* factor, Stream stream);

/// The factor of a sum of squares. Launches: 1.
void gradient_factor_of_squares(const double* squares, const GradientFactorAttributes& attributes,
                                const double* loss_scale, float* factor, Stream stream);

}  // namespace trainer::cuda
