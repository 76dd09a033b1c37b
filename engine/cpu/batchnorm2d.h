#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "engine/cpu/cpu_context.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/shape.h"
#include "engine/simd.h"

namespace trainer {

/// Rows summed in f32 before they are added to an f64 sum: bounds the rounding error whatever the batch.
inline constexpr std::int64_t rows_per_f32_sum = 64;

/// An image (N, H, W, C) as rows of channels: rows = N·H·W.
struct ImageRows {
  std::int64_t rows = 0, channels = 0;

  explicit ImageRows(const TensorType& x) : rows(x.num_elements() / x.shape[-1]), channels(x.shape[-1]) {}

  /// Over which sums are taken, one after the other in f64.
  RowParts sum_parts() const { return row_parts(rows, rows_per_f32_sum); }
  /// Passes over the elements.
  RowParts blocks() const {
    const std::int64_t block_rows = 8192 / channels;
    return row_parts(rows, block_rows > 0 ? block_rows : 1, rows);
  }
  int num_threads(const CpuContext& context) const {
    return rows * channels <= serial_elements ? 1 : context.num_threads;
  }
  /// Two sums for each part and channel.
  std::int64_t num_sums() const { return sum_parts().num_parts * 2 * channels; }
};

/// Channels whose sums are held in registers while the rows stream by.
inline constexpr std::int64_t tile_channels = 64;

/// Adds up the sums of all parts into those of the first, in order.
void add_parts(double* sums, std::int64_t num_parts, std::int64_t count);

/// Note [Normalised again]
/// The backward pass decides by y whether a gradient passes ReLU, and checkpointing makes y anew. Both compute it from
/// x instead of reading it, and must come to the bits that the forward pass came to. So all three take the statistics
/// as the f32 numbers that are kept, turn them into a line for each channel here, and apply the line by this one
/// expression. A compiler contracts it to a fused multiply-add everywhere or nowhere, as long as the callers' files are
/// compiled with the same options; and the callers are TRAINER_SIMD, of which the loader picks the same level.
TRAINER_SIMD_INLINE float normalized(float x, float scale, float offset) { return x * scale + offset; }

/// scale = weight · rstd and offset = bias − mean · scale, over the channels; a null weight is 1, a null bias 0.
void normalization_lines(const float* mean, const float* rstd, const float* weight, const float* bias,
                         std::int64_t channels, float* scale, float* offset);

/// What all kernels of batch norm keep of their op.
class AnyBatchNorm2dKernel : public CpuKernel {
 public:
  AnyBatchNorm2dKernel(const Op& op, const CpuContext& context)
      : context_(context),
        attributes_(attributes_of<BatchNorm2dAttributes>(op)),
        shape_(op.inputs[0]),
        type_(op.inputs[0].dtype) {}

 protected:
  const CpuContext& context_;
  BatchNorm2dAttributes attributes_;
  ImageRows shape_;
  DType type_;  ///< of x and y, dy and dx
};

template <std::derived_from<AnyBatchNorm2dKernel> One>
std::unique_ptr<CpuKernel> make_batchnorm2d(const Op& op, CpuContext& context) {
  return std::make_unique<One>(op, context);
}

/// CpuOp::workspace_bytes of the forward and the backward ops.
std::int64_t batchnorm2d_workspace_bytes(const Op& op, CpuContext& context);

}  // namespace trainer
