#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "engine/cpu/channel_place.h"
#include "engine/cpu/channel_rows.h"
#include "engine/cpu/cpu_context.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/shape.h"

namespace trainer {

/// x (…, C) as rows of channels.
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

/// What all kernels of batch norm keep of their op.
class AnyBatchNorm2dKernel : public CpuKernel {
 public:
  AnyBatchNorm2dKernel(const Op& op, const CpuContext& context)
      : context_(context),
        attributes_(attributes_of<BatchNorm2dAttributes>(op)),
        shape_(op.inputs[0]),
        type_(op.inputs[0].dtype),
        place_(op) {}

 protected:
  /// The sums of x − shift and of its square over all rows, in `sums`, which holds ImageRows::num_sums; one row becomes
  /// the shift. `scratch`: of the pieces.
  void sum_all_moments(const void* x, float* shift, double* sums, float* scratch) const;

  const CpuContext& context_;
  BatchNorm2dAttributes attributes_;
  ImageRows shape_;
  DType type_;  ///< of x and y, dy and dx
  ChannelPlace place_;
};

template <std::derived_from<AnyBatchNorm2dKernel> One>
std::unique_ptr<CpuKernel> make_batchnorm2d(const Op& op, CpuContext& context) {
  return std::make_unique<One>(op, context);
}

/// CpuOp::workspace_bytes of all of them.
std::int64_t batchnorm2d_workspace_bytes(const Op& op, CpuContext& context);

}  // namespace trainer
