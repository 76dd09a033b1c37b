#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

struct GradientView {
  const void* data = nullptr;
  std::int64_t count = 0;
};

/// An f64 for each chunk of 4096 elements of a gradient.
constexpr std::int64_t gradient_norm_chunks(std::int64_t count) { return (count + 4095) / 4096; }

/// norm_and_factor = the L2 norm of all gradients together, of `type`, and what an update multiplies them by:
/// min(1, clip_norm / (norm + 1e-6)), NaN where the norm is. Squares are summed in f64, in an order that depends on the
/// counts alone. Workspace: 8 bytes for each of the gradient_norm_chunks of every gradient.
/// Launches: one for up to 640 gradients, and one that adds up. Bytes: the gradients once. FLOPs: 2 an element.
void gradient_norm(DType type, std::span<const GradientView> gradients, double clip_norm, float* norm_and_factor,
                   void* workspace, Stream stream);

}  // namespace trainer::cuda
