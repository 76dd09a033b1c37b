#include "cuda/library/cudnn_attention_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "cuda/device/cuda_call.h"
#include "cuda/library/cudnn_frontend.h"
#include "cuda/library/cudnn_plans.h"
#include "cuda/library/held_library.h"
#include "engine/config/text/json_input.h"
#include "engine/ops/attention.h"

namespace trainer::cuda {

namespace {

enum AttentionOperandId : std::int64_t { q_id = 1, k_id, v_id, y_id, lse_id, dy_id, dq_id, dk_id, dv_id };

/// Whoever changes how calls are described or engines chosen raises it: answers are kept (Note [Answers that are kept]
/// in cuda/library/known_scratch.h).
constexpr int version_of_attention_rules = 1;

std::string text_of(const AttentionCall& call) {
  return fmt::format("attention{} of {}×{} queries and {} keys in {} heads of {} in {}",
                     call.direction == AttentionDirection::forward ? "" : "'s backward pass", call.samples,
                     call.queries, call.keys, call.heads, call.width, name_of(call.type));
}

/// The dimensions and strides of an operand, which cuDNN takes as samples, heads, positions, features of a head.
fe::graph::Tensor_attributes attention_tensor(const AttentionCall& call, AttentionOperandId id, bool of_keys,
                                              std::int64_t features) {
  const std::int64_t positions = of_keys ? call.keys : call.queries, heads = of_keys ? call.kv_heads : call.heads;
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_dim({call.samples, heads, positions, call.width})
      .set_stride({positions * features, call.width, features, 1});
}

fe::graph::Tensor_attributes logarithms(const AttentionCall& call) {
  return fe::graph::Tensor_attributes()
      .set_uid(lse_id)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({call.samples, call.heads, call.queries, 1})
      .set_stride({call.heads * call.queries, call.queries, 1, 1});
}

/// What an operation makes, described as `description`.
void set_attention_result(fe::graph::Tensor_attributes& result, const fe::graph::Tensor_attributes& description) {
  result.set_output(true)
      .set_uid(description.get_uid())
      .set_dim(description.get_dim())
      .set_stride(description.get_stride());
}

template <typename Attributes>
Attributes attention_attributes(const AttentionCall& call) {
  Attributes attributes;
  attributes.set_attn_scale(score_scale(call.width));
  if (call.causal) attributes.set_causal_mask(true);
  return attributes;
}

void add_attention(fe::graph::Graph& graph, const AttentionCall& call) {
  const std::int64_t features_of_y = call.heads * call.width;
  const auto of_q = [&](AttentionOperandId id) { return attention_tensor(call, id, false, call.query_features); };
  const auto of_k = [&](AttentionOperandId id) { return attention_tensor(call, id, true, call.key_features); };
  const auto of_y = [&](AttentionOperandId id) { return attention_tensor(call, id, false, features_of_y); };
  const auto q = graph.tensor(of_q(q_id)), k = graph.tensor(of_k(k_id)), v = graph.tensor(of_k(v_id));
  if (call.direction == AttentionDirection::forward) {
    auto attributes = attention_attributes<fe::graph::SDPA_attributes>(call);
    const auto [y, lse] = graph.sdpa(q, k, v, attributes.set_generate_stats(true));
    set_attention_result(*y, of_y(y_id));
    set_attention_result(*lse, logarithms(call));
    lse->set_data_type(fe::DataType_t::FLOAT);
    return;
  }
  const auto y = graph.tensor(of_y(y_id)), dy = graph.tensor(of_y(dy_id)), lse = graph.tensor(logarithms(call));
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, y, dy, lse, attention_attributes<fe::graph::SDPA_backward_attributes>(call));
  set_attention_result(*dq, of_q(dq_id));
  set_attention_result(*dk, of_k(dk_id));
  set_attention_result(*dv, of_k(dv_id));
}

void set_attention_types(fe::graph::Graph& graph, const AttentionCall& call) {
  graph.set_io_data_type(frontend_type_of(call.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

/// For a device that is only described.
class DescribedAttention final : public fe::graph::Graph {
 public:
  DescribedAttention(const AttentionCall& call, std::shared_ptr<const fe::DeviceProperties> properties,
                     int compute_capability)
      : properties_(std::move(properties)) {
    set_attention_types(*this, call);
    set_device_properties(properties_);
    set_sm_version(compute_capability);
    add_attention(*this, call);
    is_taken_ = validate().is_good() && build_operation_graph().is_good();
    if (is_taken_) plans.set_tag(operation_graph->getTag());
  }

  /// The first that `mode` proposes within `workspace_limit`. None is built: see Note [Attention by cuDNN].
  std::optional<AttentionEngine> first_within(std::int64_t workspace_limit, cudnnBackendHeurMode_t mode) {
    if (!is_taken_) return std::nullopt;
    fe::EngineConfigList engines;
    try {
      auto heuristics = fe::EngineHeuristicsBuilder_v8()
                            .setDeviceProperties(properties_)
                            .setOperationGraph(*operation_graph)
                            .setHeurMode(mode)
                            .build();
      engines = heuristics.getEngineConfig(heuristics.getEngineConfigCount());
    } catch (const fe::cudnnException&) {
      return std::nullopt;
    }
    const std::int64_t begin = get_execution_plan_count();
    plans.enqueue_engine_configs(engines);
    if (plans.query_properties().is_bad()) return std::nullopt;
    for (std::size_t i = 0; i < engines.size(); ++i) {
      AttentionEngine engine;
      if (fe::detail::get_workspace_size(engines[i], engine.workspace_bytes).is_bad()) continue;
      engine.workspace_bytes += get_fe_workspace_size_subtree();
      if (engine.workspace_bytes > workspace_limit) continue;
      require_cudnn(get_plan_name_at_index(begin + static_cast<std::int64_t>(i), engine.name), "name an engine");
      return engine;
    }
    return std::nullopt;
  }

 private:
  std::shared_ptr<const fe::DeviceProperties> properties_;
  bool is_taken_ = false;
};

/// Runs on the stream it is given, in the memory it is given.
class CudnnAttention final : public FusedAttention {
 public:
  /// The plan at `index` of `graph`, which is built.
  CudnnAttention(fe::graph::Graph graph, std::int64_t index, AttentionDirection direction, cudnnHandle_t handle)
      : handle_(handle),
        is_forward_(direction == AttentionDirection::forward),
        graph_(std::move(graph)),
        index_(index) {}

  void run(const FusedAttentionOperands& operands, Stream stream) override {
    // The graph only reads them.
    const auto read = [](const void* address) { return const_cast<void*>(address); };
    addresses_[q_id] = read(operands.q);
    addresses_[k_id] = read(operands.k);
    addresses_[v_id] = read(operands.v);
    addresses_[y_id] = operands.y;
    addresses_[lse_id] = operands.lse;
    if (!is_forward_) {
      addresses_[dy_id] = read(operands.dy);
      addresses_[dq_id] = operands.dq;
      addresses_[dk_id] = operands.dk;
      addresses_[dv_id] = operands.dv;
    }
    if (const cudnnStatus_t status = cudnnSetStream(handle_, stream); status != CUDNN_STATUS_SUCCESS)
      fail(stream, cudnnGetErrorString(status));
    const fe::error_t error = graph_.execute_plan_at_index(handle_, addresses_, operands.workspace, index_);
    if (error.is_bad()) fail(stream, first_line_of(error));
  }

 private:
  [[noreturn]] static void fail(Stream stream, std::string_view reason) {
    require_no_fault(stream, "run attention");
    throw DeviceError(fmt::format(
        "cuDNN could not run attention: {}; the run's last checkpoint is intact: continue it with --resume. "
        "--debug-sync names the op that fails",
        reason));
  }

  cudnnHandle_t handle_;
  bool is_forward_;
  fe::graph::Graph graph_;
  std::int64_t index_;
  std::unordered_map<std::int64_t, void*> addresses_;
};

int compute_capability_in(const std::string& properties_json) {
  const auto properties = parse_json<nlohmann::json>(properties_json);
  try {
    if (properties) return static_cast<int>(JsonInput(*properties).at("deviceVer").integer() / 10);
  } catch (const JsonMistake& mistake) {
    throw DeviceError(fmt::format("the properties of a device for cuDNN: {}", mistake.what()));
  }
  throw DeviceError("the properties of a device for cuDNN are no JSON object");
}

}  // namespace

struct CudnnAttentionPlans::Device {
  std::shared_ptr<fe::DeviceProperties> properties = std::make_shared<fe::DeviceProperties>();
  int compute_capability = 0;
  std::unique_ptr<HeldLibrary> nvrtc;  ///< from the first question on
};

CudnnAttentionPlans::CudnnAttentionPlans(const std::string& properties_json) : device_(std::make_unique<Device>()) {
  device_->compute_capability = compute_capability_in(properties_json);
  require_cudnn(device_->properties->deserialize({properties_json.begin(), properties_json.end()}),
                "take the properties of a device");
}

CudnnAttentionPlans::~CudnnAttentionPlans() = default;
CudnnAttentionPlans::CudnnAttentionPlans(CudnnAttentionPlans&&) noexcept = default;
CudnnAttentionPlans& CudnnAttentionPlans::operator=(CudnnAttentionPlans&&) noexcept = default;

bool CudnnAttentionPlans::may_serve() const { return device_->compute_capability >= least_attention_capability; }

std::optional<AttentionEngine> CudnnAttentionPlans::find(const AttentionCall& call) const {
  if (!may_serve()) return std::nullopt;
  if (device_->nvrtc == nullptr) {
    stand_in_for_driver();
    device_->nvrtc = std::make_unique<HeldLibrary>(nvrtc_name());
  }
  DescribedAttention attention(call, device_->properties, device_->compute_capability);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    if (const auto engine = attention.first_within(call.workspace_limit, mode)) return engine;
  return std::nullopt;
}

bool CudnnAttentionPlans::lists_engines() const {
  return find({.samples = 1,
               .queries = 128,
               .keys = 128,
               .heads = 1,
               .kv_heads = 1,
               .width = 64,
               .query_features = 64,
               .key_features = 64,
               .causal = true,
               .workspace_limit = std::int64_t{1} << 20})
      .has_value();
}

std::string CudnnAttentionPlans::identity(const std::string& properties_json) {
  return fmt::format("attention {}, {}", version_of_attention_rules, CudnnPlans::identity(properties_json));
}

std::unique_ptr<FusedAttention> build_cudnn_attention(const AttentionEngine& planned, const AttentionCall& call,
                                                      cudnnHandle_t handle) {
  fe::graph::Graph graph;
  set_attention_types(graph, call);
  add_attention(graph, call);
  require_cudnn(graph.validate(), "take the description of attention");
  require_cudnn(graph.build_operation_graph(handle), "take the description of attention");
  require_cudnn(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "list its attention");
  std::string problem = "no engine serves";
  for (const bool of_same_engine : {true, false}) {
    for (std::int64_t index = 0; index < graph.get_execution_plan_count(); ++index) {
      std::string engine;
      require_cudnn(graph.get_plan_name_at_index(index, engine), "name an engine");
      if ((engine == planned.name) != of_same_engine) continue;
      if (const fe::error_t error = graph.build_plan_at_index(index); error.is_bad()) {
        problem = first_line_of(error);
        continue;
      }
      if (graph.get_workspace_size_plan_at_index(index) > planned.workspace_bytes) continue;
      return std::make_unique<CudnnAttention>(std::move(graph), index, call.direction, handle);
    }
  }
  require_no_fault(nullptr, "plan attention");
  throw DeviceError(fmt::format("cuDNN has no engine for {} within the {} bytes of scratch that were planned: {}",
                                text_of(call), planned.workspace_bytes, problem));
}

}  // namespace trainer::cuda
