#pragma once

#include <cudnn.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "cuda/library/attention.h"
#include "cuda/library/cudnn_attention_plans.h"

namespace trainer::cuda {

/// The whole call in one line, as a key in files and maps.
std::string text_key(const AttentionCall& call);

/// Asks each question once.
class CudnnAttentionPlanner final : public AttentionPlanner {
 public:
  explicit CudnnAttentionPlanner(CudnnAttentionPlans plans) : plans_(std::move(plans)) {}

  std::optional<std::int64_t> workspace_bytes(const AttentionCall& call) override;
  /// Null where there is none.
  const AttentionEngine* engine(const AttentionCall& call);
  const CudnnAttentionPlans& plans() const { return plans_; }
  /// Whether there was none for a call.
  bool has_refused() const { return has_refused_; }

 private:
  CudnnAttentionPlans plans_;
  bool has_refused_ = false;
  std::unordered_map<std::string, std::optional<AttentionEngine>> engines_;  ///< by text_key
};

/// Attention of a device that is only described: `properties_json` is as make_cudnn_planner takes it. Answers are kept
/// (Note [Answers that are kept] in cuda/library/known_scratch.h). Where cuDNN lists nothing that it has for the
/// device, they are bounds. Throws DeviceError where cuDNN does not take the description.
std::unique_ptr<AttentionPlanner> make_cudnn_attention_planner(const std::string& properties_json);

/// Attention on the calling thread's current device, planned as make_cudnn_attention_planner does from that device's
/// own properties.
class CudnnAttentions {
 public:
  /// `handle` is the device's and must outlive this.
  CudnnAttentions(const std::string& properties_json, cudnnHandle_t handle);

  /// Null where the device is too old for any.
  AttentionPlanner* planner() { return planner_.plans().may_serve() ? &planner_ : nullptr; }
  /// In the scratch that planner() tells. Null where cuDNN cannot build it: note() then says why.
  std::shared_ptr<FusedAttention> prepare(const AttentionCall& call);
  /// A sentence that tells of the first attention that does not run as planned, or why cuDNN serves none; empty where
  /// all is as it should be.
  std::string note() const;

 private:
  CudnnAttentionPlanner planner_;
  cudnnHandle_t handle_;
  std::string note_;
  std::unordered_map<std::string, std::shared_ptr<FusedAttention>> prepared_;  ///< by text_key: layers share it
};

}  // namespace trainer::cuda
