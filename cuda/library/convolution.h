#pragma once

#include <array>
#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"
#include "engine/errors.h"

namespace trainer::cuda {

// Note [Statistics of a convolution]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// cuDNN can add up y and y² of each channel while it computes y, so that the batch norm behind it need not read y for
// its moments. Version 9.19 plans that for described devices from sm_80 to sm_90, in f16, without a note that the sums
// would differ from run to run, in 0.1 to 0.5 MiB of scratch for ResNet-18 on CIFAR at 256 (1.6 to 12.8 MB for
// ImageNet's 56×56). It refuses bf16, f32, input channels that are no multiple of 8 (on sm_90 output channels too), and
// sm_75 and sm_100. The engine is another than without statistics (on sm_90 eng2 for eng62), so y may differ in its
// last bit; what that does to the convolution's time is for tests/bench_kernels to tell, by the cases
// convolution_statistics and convolution_forward.
//
// Batch norm's own moments are those of x less its first pixel, merged in f64: exact to 1e-8 whatever the mean. A
// variance of plain f32 sums, Σy²/n − (Σy/n)², loses the digits that mean² has above it. Against exact arithmetic over
// 256·32·32 values of f16, sums over 256 rows added up in f64 or f32, the worst of four orders of addition:
//
//   |mean| / std       0     1     3      10     30      100    300    1000
//   error of variance  5e-7  3e-7  2e-5   6e-5   2.4e-4  8e-3   2e-2   > 1
//
// f16 itself rounds to 5e-4, so up to a mean of 16 standard deviations the sums are as good as own moments, and beyond
// it they are not: batchnorm2d_forward, which takes them (Note [Given sums] in engine/program/statistics_fusion.h),
// computes such channels' moments anew from y.

enum class ConvolutionDirection : std::uint8_t { forward, input_gradient, weight_gradient };

/// A cross-correlation and its gradients: x (N, H, W, C) and y (N, H', W', K) without gaps, weights (K, kh, kw,
/// C/groups), the order cuDNN wants beside NHWC images (PyTorch's is (K, C/groups, kh, kw)). Forward computes y, with
/// bias (K) and ReLU where asked for; the gradients compute x or the weights from y. FLOPs: 2 · N H' W' K · kh kw
/// C/groups in each direction. Bytes: the three tensors once.
struct ConvolutionCall {
  ConvolutionDirection direction{};
  DType type = DType::f32;
  std::array<std::int64_t, 4> x{}, y{};  ///< N, H, W, C
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = false, relu = false;  ///< forward only; relu only with bias: cuDNN has no engine for it alone
  bool statistics = false;          ///< forward only, without bias: Note [Statistics of a convolution]
  bool tf32 = false;
  std::int64_t workspace_limit = 0;  ///< engines that need more are not chosen where another serves
  friend bool operator==(const ConvolutionCall&, const ConvolutionCall&) = default;
};

/// (K, kh, kw, C/groups)
constexpr std::array<std::int64_t, 4> weights_of(const ConvolutionCall& call) {
  return {call.y[3], call.kernel[0], call.kernel[1], call.x[3] / call.groups};
}

struct ConvolutionOperands {
  void* x = nullptr;
  void* weights = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  float* sums = nullptr;  ///< with statistics, (K): of y over all pixels, and of y²
  float* square_sums = nullptr;
};

/// Knows, for one device, which engine serves a convolution and what scratch it needs; the device may be only
/// described.
class ConvolutionPlanner {
 public:
  virtual ~ConvolutionPlanner() = default;
  /// Throws DeviceError where nothing serves the call.
  virtual std::int64_t workspace_bytes(const ConvolutionCall& call) = 0;
  /// Whether something serves the call within its limit.
  virtual bool serves(const ConvolutionCall& call) {
    try {
      return workspace_bytes(call) <= call.workspace_limit;
    } catch (const DeviceError&) {
      return false;
    }
  }
  /// Of the calls asked about, those whose engines the device will time (device.autotune) or has timed without its
  /// choice being known here: what they run there may need less scratch than was answered.
  virtual std::int64_t num_untuned() const { return 0; }
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual void run(const ConvolutionOperands& operands, Stream stream) = 0;
};

}  // namespace trainer::cuda
