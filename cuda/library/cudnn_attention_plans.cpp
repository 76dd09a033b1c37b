#include "cuda/library/cudnn_attention_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/device/cuda_call.h"
#include "cuda/library/cudnn_frontend.h"
#include "cuda/library/cudnn_plans.h"
#include "cuda/library/engine_choices.h"
#include "cuda/library/held_library.h"
#include "engine/ops/attention.h"

namespace trainer::cuda {

namespace {

enum AttentionUid : std::int64_t { q_uid = 1, k_uid, v_uid, y_uid, lse_uid, dy_uid, dq_uid, dk_uid, dv_uid };

/// Whoever changes how calls are described or engines chosen raises it: answers are kept (Note [Answers that are kept]
/// in cuda/library/known_scratch.h).
constexpr int version_of_attention_rules = 1;

std::string text_of(const AttentionCall& call) {
  return fmt::format("attention{} of {}×{} queries and {} keys in {} heads of {} in {}",
                     call.direction == AttentionDirection::forward ? "" : "'s backward pass", call.samples,
                     call.queries, call.keys, call.heads, call.width, name_of(call.type));
}

/// The dimensions and strides of an operand, which cuDNN takes as samples, heads, positions, features of a head.
fe::graph::Tensor_attributes attention_tensor(const AttentionCall& call, AttentionUid id, bool of_keys,
                                              std::int64_t features) {
  const std::int64_t positions = of_keys ? call.keys : call.queries, heads = of_keys ? call.kv_heads : call.heads;
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_dim({call.samples, heads, positions, call.width})
      .set_stride({positions * features, call.width, features, 1});
}

fe::graph::Tensor_attributes logarithms(const AttentionCall& call) {
  return fe::graph::Tensor_attributes()
      .set_uid(lse_uid)
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
  const auto of_q = [&](AttentionUid id) { return attention_tensor(call, id, false, call.query_features); };
  const auto of_k = [&](AttentionUid id) { return attention_tensor(call, id, true, call.key_features); };
  const auto of_y = [&](AttentionUid id) { return attention_tensor(call, id, false, features_of_y); };
  const auto q = graph.tensor(of_q(q_uid)), k = graph.tensor(of_k(k_uid)), v = graph.tensor(of_k(v_uid));
  if (call.direction == AttentionDirection::forward) {
    auto attributes = attention_attributes<fe::graph::SDPA_attributes>(call);
    const auto [y, lse] = graph.sdpa(q, k, v, attributes.set_generate_stats(true));
    set_attention_result(*y, of_y(y_uid));
    set_attention_result(*lse, logarithms(call));
    return;
  }
  const auto y = graph.tensor(of_y(y_uid)), dy = graph.tensor(of_y(dy_uid)), lse = graph.tensor(logarithms(call));
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, y, dy, lse, attention_attributes<fe::graph::SDPA_backward_attributes>(call));
  set_attention_result(*dq, of_q(dq_uid));
  set_attention_result(*dk, of_k(dk_uid));
  set_attention_result(*dv, of_k(dv_uid));
}

void set_attention_types(fe::graph::Graph& graph, const AttentionCall& call) {
  graph.set_io_data_type(frontend_type_of(call.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

/// Engines that are never used: forward those that give other bits when run again (cuDNN's backward pass may, see Note
/// [Attention by cuDNN]), and those that round operands to a smaller type or add up in one.
std::vector<fe::NumericalNote_t> refused_notes(AttentionDirection direction) {
  std::vector<fe::NumericalNote_t> notes = {fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                            fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (direction == AttentionDirection::forward) notes.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  return notes;
}

/// For a device that is only described.
class DescribedAttention final : public fe::graph::Graph {
 public:
  DescribedAttention(const AttentionCall& call, std::shared_ptr<const fe::DeviceProperties> properties,
                     int compute_capability)
      : properties_(std::move(properties)), refused_(refused_notes(call.direction)) {
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
      const auto& notes = plans.numeric_notes.at(static_cast<std::size_t>(begin) + i);
      if (std::find_first_of(notes.begin(), notes.end(), refused_.begin(), refused_.end()) != notes.end()) continue;
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
  std::vector<fe::NumericalNote_t> refused_;
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
    addresses_[q_uid] = read(operands.q);
    addresses_[k_uid] = read(operands.k);
    addresses_[v_uid] = read(operands.v);
    addresses_[y_uid] = operands.y;
    addresses_[lse_uid] = operands.lse;
    if (!is_forward_) {
      addresses_[dy_uid] = read(operands.dy);
      addresses_[dq_uid] = operands.dq;
      addresses_[dk_uid] = operands.dk;
      addresses_[dv_uid] = operands.dv;
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

std::string CudnnAttentionPlans::why_none() const {
  const AttentionCall usual{.samples = 1,
                            .queries = 128,
                            .keys = 128,
                            .heads = 1,
                            .kv_heads = 1,
                            .width = 64,
                            .query_features = 64,
                            .key_features = 64,
                            .causal = true,
                            .workspace_limit = std::int64_t{1} << 20};
  if (find(usual)) return {};
  if (!CudnnPlans::has_nvrtc()) return "cuDNN lists none of its attention without libnvrtc, which is not found";
  if (const std::string problem = stand_in_for_driver(); !problem.empty())
    return "cuDNN lists none of its attention without a driver, and what stands in for one is missing: " + problem;
  return "cuDNN lists none of its attention here";
}

std::string CudnnAttentionPlans::identity(const std::string& properties_json) {
  return fmt::format("attention {}, {}", version_of_attention_rules, CudnnPlans::identity(properties_json));
}

std::unique_ptr<FusedAttention> build_cudnn_attention(const AttentionEngine& planned, const AttentionCall& call,
                                                      cudnnHandle_t handle, std::string& note) {
  fe::graph::Graph graph;
  set_attention_types(graph, call);
  add_attention(graph, call);
  std::string problem = "no engine serves";
  const auto is_good = [&](const fe::error_t& error) {
    if (error.is_good()) return true;
    require_no_fault(nullptr, "plan attention");
    problem = first_line_of(error);
    return false;
  };
  if (is_good(graph.validate()) && is_good(graph.build_operation_graph(handle)) &&
      is_good(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}))) {
    graph.deselect_numeric_notes(refused_notes(call.direction));
    for (const bool of_same_engine : {true, false}) {
      for (std::int64_t index = 0; index < graph.get_execution_plan_count(); ++index) {
        std::string engine;
        if (!is_good(graph.get_plan_name_at_index(index, engine)) || (engine == planned.name) != of_same_engine ||
            !is_good(graph.build_plan_at_index(index)))
          continue;
        if (const std::int64_t bytes = graph.get_workspace_size_plan_at_index(index); bytes > planned.workspace_bytes) {
          problem = fmt::format("{} needs {} bytes of scratch", engine, bytes);
          continue;
        }
        if (!of_same_engine)
          note = fmt::format("{} runs in cuDNN's {} instead of the planned {}: {}", text_of(call), engine, planned.name,
                             problem);
        return std::make_unique<CudnnAttention>(std::move(graph), index, call.direction, handle);
      }
    }
  }
  note =
      fmt::format("{} runs in trainer's own kernels, in the {} bytes of scratch that were planned for cuDNN's {}: {}",
                  text_of(call), planned.workspace_bytes, planned.name, problem);
  return nullptr;
}

}  // namespace trainer::cuda
