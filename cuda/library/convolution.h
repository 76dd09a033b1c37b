#pragma once

#include <array>
#include <cstdint>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

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
};

/// Knows, for one device, which engine serves a convolution and what scratch it needs; the device may be only
/// described.
class ConvolutionPlanner {
 public:
  virtual ~ConvolutionPlanner() = default;
  /// Throws DeviceError where nothing serves the call.
  virtual std::int64_t workspace_bytes(const ConvolutionCall& call) = 0;
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
