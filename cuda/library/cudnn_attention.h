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

 private:
  CudnnAttentionPlans plans_;
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

  AttentionPlanner& planner() { return planner_; }
  /// In the scratch that planner() tells. Null where cuDNN cannot build it: note() then says why.
  std::shared_ptr<FusedAttention> prepare(const AttentionCall& call);
  /// A sentence that tells of the first attention that could not be built; empty where all could.
  const std::string& note() const { return note_; }

 private:
  CudnnAttentionPlanner planner_;
  cudnnHandle_t handle_;
  std::string note_;
  std::unordered_map<std::string, std::shared_ptr<FusedAttention>> prepared_;  ///< by text_key: layers share it
};

}  // namespace trainer::cuda
