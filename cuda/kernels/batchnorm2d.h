#pragma once

#include <cstdint>
#include <limits>

#include "cuda/kernels/row_parts.h"
#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

/// An image (N, H, W, C) as (rows, channels): rows = N·H·W.
struct BatchNorm2dShape {
  std::int64_t rows = 0, channels = 0;
};

/// NaN, than which nothing is greater.
inline constexpr float no_ceiling = std::numeric_limits<float>::quiet_NaN();

/// Up to here one launch does everything, each block for some channels; above it three do: sums over parts of the rows,
/// their combination for each channel, and the pass over the elements.
constexpr bool batchnorm2d_is_one_launch(const BatchNorm2dShape& shape) { return shape.rows <= 1024; }

/// A pair of f32 for each part of the rows and each channel.
constexpr std::int64_t batchnorm2d_forward_workspace_bytes(const BatchNorm2dShape& shape) {
  return batchnorm2d_is_one_launch(shape) ? 0 : 8 * row_parts(shape.rows, shape.channels).num_parts * shape.channels;
}
/// And one for each channel.
constexpr std::int64_t batchnorm2d_backward_workspace_bytes(const BatchNorm2dShape& shape) {
  return batchnorm2d_is_one_launch(shape) ? 0 : batchnorm2d_forward_workspace_bytes(shape) + 8 * shape.channels;
}

/// Over the channels, f32; x and y of the type that the launcher is told.
struct BatchNorm2dForward {
  const void* x = nullptr;
  void* y = nullptr;             ///< may be x
  std::int64_t y_channels = 0;   ///< of y's rows, of which `channels` are written; 0: no others
  const void* addend = nullptr;  ///< (rows, channels) of x's type, added before ReLU; may be y; null: nothing
  float* running_mean = nullptr;
  float* running_var = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  const float* sums = nullptr;    ///< of x over the rows, and of x²; null: not known
  const float* square_sums = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  void* workspace = nullptr;
  double eps = 0, momentum = 0;
  bool relu = false;
  float ceiling = no_ceiling;  ///< with relu: what y is at most
};

/// mean and biased variance over the rows; y = (x − mean) · rstd · weight + bias + addend, then ReLU; the running
/// statistics take in the mean and the unbiased variance (the biased one of a single row). NaN passes.
/// With sums, above 1024 rows, the moments of a channel follow from them where they are as good as those of x (Note
/// [Statistics of a convolution] in cuda/library/convolution.h): where the variance is finite and above 0, and mean² at
/// most 256 times as large. The others are found in x, to the same bits as without sums.
/// Bytes: x twice (above 1024 rows the second time from the cache only where it fits there), once where the sums serve
/// all channels; y and the addend once. FLOPs: 11 an element, 12 with an addend.
void batchnorm2d_forward(DType type, const BatchNorm2dForward& operands, const BatchNorm2dShape& shape, Stream stream);

struct BatchNorm2dNormalize {
  const void* x = nullptr;
  void* y = nullptr;             ///< may be x
  std::int64_t y_channels = 0;   ///< of y's rows, of which `channels` are written; 0: no others
  const void* addend = nullptr;  ///< (rows, channels) of x's type, added before ReLU; may be y; null: nothing
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  bool relu = false;
  float ceiling = no_ceiling;  ///< with relu: what y is at most
};

/// y once more, bit for bit, from the mean and rstd that the forward pass wrote: Note [Normalised again] in
/// batchnorm2d_line.cuh. Bytes: x, y and the addend once. FLOPs: 3 an element, 4 with an addend.
void batchnorm2d_normalize(DType type, const BatchNorm2dNormalize& operands, const BatchNorm2dShape& shape,
                           Stream stream);

struct BatchNorm2dInference {
  const void* x = nullptr;
  void* y = nullptr;                    ///< may be x
  std::int64_t y_channels = 0;          ///< of y's rows, of which `channels` are written; 0: no others
  const void* addend = nullptr;         ///< (rows, channels) of x's type, added before ReLU; may be y; null: nothing
  const float* running_mean = nullptr;  ///< null: 0
  const float* running_var = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  double eps = 0;
  bool relu = false;
  float ceiling = no_ceiling;  ///< with relu: what y is at most
};

/// The same with the running statistics; without mean and bias also the gradient by x, of dy. Bytes: x, y and the
/// addend once. FLOPs: 3 an element, 4 with an addend.
void batchnorm2d_inference(DType type, const BatchNorm2dInference& operands, const BatchNorm2dShape& shape,
                           Stream stream);

struct BatchNorm2dBackward {
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0; only read with relu and no y
  const void* y = nullptr;        ///< where there was an addend: the output, which then tells what passed ReLU
  void* dx = nullptr;             ///< may be dy where daddend is not, or y
  void* daddend = nullptr;        ///< with y: g, the gradient of the addend; may be dy where dx is not; else null
  float* dweight = nullptr;       ///< null: not wanted
  float* dbias = nullptr;         ///< null: not wanted
  void* workspace = nullptr;
  bool relu = false;  ///< dy counts where y was above 0, as stored or, where it is null, in f32; else everywhere
  float ceiling = no_ceiling;  ///< with relu and no y: nor does dy count where y was so large
};

/// dx = weight · rstd · (g − Σg / rows − x̂ · Σ(g·x̂) / rows), dweight = Σ(g·x̂), dbias = Σg, with x̂ = (x − mean) · rstd
/// and g = dy where it counts. A null y is computed anew (Note [Normalised again] in batchnorm2d_line.cuh).
/// Bytes: dy and x twice and dx once; with y: dy once, daddend twice and, with ReLU, y once.
/// FLOPs: 10 an element, 16 with ReLU and no y.
void batchnorm2d_backward(DType type, const BatchNorm2dBackward& operands, const BatchNorm2dShape& shape,
                          Stream stream);

// The same in pieces, between which ranks add up their sums: Note [Batch norm over ranks] in
// engine/ops/batchnorm2d_over_ranks.h. `sums` are f64 (2 · channels + 1).

/// A pair of f32 for each part of the rows and each channel.
constexpr std::int64_t batchnorm2d_sums_workspace_bytes(const BatchNorm2dShape& shape) {
  return 8 * row_parts(shape.rows, shape.channels).num_parts * shape.channels;
}
/// And of the last launch, one for each channel.
constexpr std::int64_t batchnorm2d_normalize_backward_workspace_bytes(const BatchNorm2dShape& shape) {
  return 8 * shape.channels;
}

struct BatchNorm2dSums {
  const void* x = nullptr;
  double* sums = nullptr;
  void* workspace = nullptr;
};

/// Σx, Σx² and the rows. Bytes: x once. FLOPs: 5 an element.
void batchnorm2d_sums(DType type, const BatchNorm2dSums& operands, const BatchNorm2dShape& shape, Stream stream);

struct BatchNorm2dStatistics {
  const double* sums = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  double eps = 0, momentum = 0;
};

/// What batchnorm2d_forward finds and makes of the running statistics, of the rows that were summed.
void batchnorm2d_statistics(const BatchNorm2dStatistics& operands, std::int64_t channels, Stream stream);

struct BatchNorm2dGradientSums {
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1; only read with relu
  const float* bias = nullptr;    ///< null: 0; only read with relu
  double* sums = nullptr;
  float* dweight = nullptr;  ///< null: not wanted
  float* dbias = nullptr;    ///< null: not wanted
  void* workspace = nullptr;
  bool relu = false;           ///< dy counts where y was above 0, in f32; else everywhere
  float ceiling = no_ceiling;  ///< with relu: nor does dy count where y was so large
};

/// Σg, Σ g·(x − mean) and the rows, and the gradients of weight and bias, as batchnorm2d_backward has them. Bytes: dy
/// and x once. FLOPs: 5 an element, 8 with ReLU.
void batchnorm2d_gradient_sums(DType type, const BatchNorm2dGradientSums& operands, const BatchNorm2dShape& shape,
                               Stream stream);

struct BatchNorm2dNormalizeBackward {
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0; only read with relu
  const double* sums = nullptr;   ///< of all ranks
  void* dx = nullptr;             ///< may be dy
  void* workspace = nullptr;
  bool relu = false;           ///< as above
  float ceiling = no_ceiling;  ///< as above
};

/// dx of batchnorm2d_backward, of the rows that were summed. Bytes: dy, x and dx once. FLOPs: 5 an element, 8 with
/// ReLU.
void batchnorm2d_normalize_backward(DType type, const BatchNorm2dNormalizeBackward& operands,
                                    const BatchNorm2dShape& shape, Stream stream);

}  // namespace trainer::cuda
