#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/launch/stream.h"
#include "engine/dtype.h"

namespace trainer::cuda {

// Note [Attention by cuDNN]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// cuDNN's fused attention serves operands of 16 bits on GPUs from compute capability 8.0 on, causal or full, without
// windows, rotation, dropout or documents, which the own kernels of cuda/kernels/attention_mma.h have. Its forward pass
// always gives the same bits and takes 256 bytes of scratch or none; what it leaves is what those kernels leave, so
// that either's backward pass follows either's forward pass. Its backward pass is deterministic below sm_100 only with
// the weights in memory, 2 · samples · heads · queries · keys bytes: it runs where device.deterministic is false, with
// f32 sums of dq, and of dk and dv where heads share them, and only in memory.workspace_limit.
//
// cuDNN's engines for it are compiled for the device when they are built, so that a plan without a GPU cannot build
// them as it builds convolutions (Note [One plan] in cudnn_convolution.cpp). It asks the engine's configuration for its
// scratch instead, and adds what cuDNN's frontend takes; cuDNN lists these engines only where it can load a driver's
// library, whose place cuda/driver_stub takes where there is none. A device builds the engine that was planned, in no
// more scratch than that; where it cannot, the own kernels run in the planned scratch, and the run says so.

inline constexpr int least_attention_capability = 80;

enum class AttentionDirection : std::uint8_t { forward, backward };

/// y = softmax(q kᵀ / √width) v of each head, and its logarithms (engine/ops/attention.h), or its gradients. FLOPs: 4 ·
/// width for each visible pair of a query and a key forward, 10 · width backward.
struct AttentionCall {
  AttentionDirection direction{};
  DType type = DType::f16;
  std::int64_t samples = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0;
  std::int64_t width = 0;                             ///< of a head
  std::int64_t query_features = 0, key_features = 0;  ///< from a position to the next of q, and of k and v
  bool causal = false;
  std::int64_t workspace_limit = 0;  ///< engines that need more are not chosen
  friend bool operator==(const AttentionCall&, const AttentionCall&) = default;
};

/// As AttentionOperands and AttentionGradients of cuda/kernels/attention.h.
struct FusedAttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* y = nullptr;  ///< forward writes it and lse, backward reads them
  float* lse = nullptr;
  const void* dy = nullptr;  ///< backward only, and the following
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void* workspace = nullptr;
};

/// Knows, for one device, which attention cuDNN serves and what scratch it needs; the device may be only described.
class AttentionPlanner {
 public:
  virtual ~AttentionPlanner() = default;
  /// Nothing where no engine serves the call within its limit.
  virtual std::optional<std::int64_t> workspace_bytes(const AttentionCall& call) = 0;
  /// Why an answer was a bound, the call's limit; empty where none was.
  virtual std::string bound_reason() const { return {}; }
};

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  virtual void run(const FusedAttentionOperands& operands, Stream stream) = 0;
};

}  // namespace trainer::cuda
