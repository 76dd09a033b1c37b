#include "cuda/library/cudnn_attention.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/library/cudnn_plans.h"
#include "cuda/library/engine_choices.h"
#include "cuda/library/known_scratch.h"
#include "engine/errors.h"

namespace trainer::cuda {

std::string text_key(const AttentionCall& call) {
  return fmt::format("attention {} {} samples {} queries {} keys {} heads {},{} of {} features {},{}{} within {}",
                     call.direction == AttentionDirection::forward ? "forward" : "backward",
                     trainer::name_of(call.type), call.samples, call.queries, call.keys, call.heads, call.kv_heads,
                     call.width, call.query_features, call.key_features, call.causal ? " causal" : "",
                     call.workspace_limit);
}

const AttentionEngine* CudnnAttentionPlanner::engine(const AttentionCall& call) {
  const auto [place, is_new] = engines_.try_emplace(text_key(call));
  if (is_new) place->second = plans_.find(call);
  has_refused_ = has_refused_ || !place->second;
  return place->second ? &*place->second : nullptr;
}

std::optional<std::int64_t> CudnnAttentionPlanner::workspace_bytes(const AttentionCall& call) {
  const AttentionEngine* const found = engine(call);
  return found == nullptr ? std::nullopt : std::optional(found->workspace_bytes);
}

namespace {

/// Asks what is kept, then cuDNN, whose answers it keeps.
class KnownAttentionPlanner final : public AttentionPlanner {
 public:
  KnownAttentionPlanner(CudnnAttentionPlans plans, std::optional<KnownScratch> known)
      : planner_(std::move(plans)), known_(std::move(known)) {}
  ~KnownAttentionPlanner() override {
    if (known_) known_->save();
  }
  KnownAttentionPlanner(const KnownAttentionPlanner&) = delete;
  KnownAttentionPlanner& operator=(const KnownAttentionPlanner&) = delete;

  std::optional<std::int64_t> workspace_bytes(const AttentionCall& call) override {
    if (!planner_.plans().may_serve()) return std::nullopt;
    const std::string key = text_key(call);
    if (known_) {
      if (const auto known = known_->find(key))
        return *known == KnownScratch::refused ? std::nullopt : std::optional(*known);
    }
    if (!lists_engines_) {
      reason_ = planner_.plans().why_none();
      lists_engines_ = reason_.empty();
    }
    if (!*lists_engines_) return call.workspace_limit;
    const std::optional<std::int64_t> answer = planner_.workspace_bytes(call);
    if (known_) known_->add(key, answer.value_or(KnownScratch::refused));
    return answer;
  }

  std::string bound_reason() const override { return reason_; }

 private:
  CudnnAttentionPlanner planner_;
  std::optional<KnownScratch> known_;
  std::optional<bool> lists_engines_;
  std::string reason_;
};

}  // namespace

std::unique_ptr<AttentionPlanner> make_cudnn_attention_planner(const std::string& properties_json) {
  const std::string identity = CudnnAttentionPlans::identity(properties_json);
  const std::string path = known_scratch_path(device_name_in(properties_json), CudnnPlans::cudnn_version(), identity);
  return std::make_unique<KnownAttentionPlanner>(
      CudnnAttentionPlans(properties_json),
      path.empty() ? std::nullopt : std::optional<KnownScratch>(std::in_place, path, identity));
}

CudnnAttentions::CudnnAttentions(const std::string& properties_json, cudnnHandle_t handle)
    : planner_(CudnnAttentionPlans(properties_json)), handle_(handle) {}

std::shared_ptr<FusedAttention> CudnnAttentions::prepare(const AttentionCall& call) {
  const auto [place, is_new] = prepared_.try_emplace(text_key(call));
  if (!is_new) return place->second;
  const AttentionEngine* const planned = planner_.engine(call);
  require_internal(planned != nullptr, "attention is prepared where its scratch was planned");
  std::string note;
  place->second = build_cudnn_attention(*planned, call, handle_, note);
  if (note_.empty()) note_ = std::move(note);
  return place->second;
}

std::string CudnnAttentions::note() const {
  if (!note_.empty() || !planner_.has_refused()) return note_;
  const std::string reason = planner_.plans().why_none();
  return reason.empty() ? reason : "attention of 16 bits runs in trainer's own kernels: " + reason;
}

}  // namespace trainer::cuda
