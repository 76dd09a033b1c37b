#pragma once

#include <cudnn.h>

#include <memory>
#include <optional>
#include <string>

#include "cuda/library/attention.h"

namespace trainer::cuda {

/// One way in which cuDNN computes attention.
struct AttentionEngine {
  std::string name;  ///< cuDNN's, with its settings: "eng2_k24=7"
  std::int64_t workspace_bytes = 0;
  friend bool operator==(const AttentionEngine&, const AttentionEngine&) = default;
};

/// What cuDNN has of fused attention for a device that is known by its properties alone, see Note [Attention by cuDNN]
/// in cuda/library/attention.h. Needs no GPU and no driver.
class CudnnAttentionPlans {
 public:
  /// Throws DeviceError where cuDNN does not take `properties_json`.
  explicit CudnnAttentionPlans(const std::string& properties_json);
  ~CudnnAttentionPlans();
  CudnnAttentionPlans(CudnnAttentionPlans&&) noexcept;
  CudnnAttentionPlans& operator=(CudnnAttentionPlans&&) noexcept;

  /// The first that cuDNN's heuristics propose within the call's limit; always the same. Takes 2 to 4 ms, the first
  /// time 0.1 s.
  std::optional<AttentionEngine> find(const AttentionCall& call) const;
  /// Whether the device has least_attention_capability, without which find() finds nothing.
  bool may_serve() const;
  /// Empty where it finds one for a usual call, as it does where may_serve(); else why not: what cuDNN compiles its
  /// attention with is not there.
  std::string why_none() const;
  /// All that answers depend on, but for the call.
  static std::string identity(const std::string& properties_json);

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

/// Attention that runs on the device that `handle` was made for, which must outlive it: `planned`'s engine, or the
/// first that needs no more scratch; null where there is none. Where it is not `planned`'s, `note` is a sentence that
/// says so. Throws DeviceError where the device itself fails.
std::unique_ptr<FusedAttention> build_cudnn_attention(const AttentionEngine& planned, const AttentionCall& call,
                                                      cudnnHandle_t handle, std::string& note);

}  // namespace trainer::cuda
