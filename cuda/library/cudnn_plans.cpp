#include "cuda/library/cudnn_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cuda/device/cuda_call.h"
#include "cuda/library/cudnn_frontend.h"
#include "cuda/library/engine_choices.h"
#include "cuda/library/held_library.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer::cuda {

namespace {

enum OperandId : std::int64_t { x_id = 1, weights_id, y_id, bias_id, sums_id, square_sums_id };

/// cuDNN's dimensions are N, C, H, W whatever the order in memory.
using Dimensions = std::vector<std::int64_t>;

Dimensions dimensions_of(const std::array<std::int64_t, 4>& nhwc) { return {nhwc[0], nhwc[3], nhwc[1], nhwc[2]}; }

Dimensions strides_of(const std::array<std::int64_t, 4>& nhwc) {
  return {nhwc[1] * nhwc[2] * nhwc[3], 1, nhwc[2] * nhwc[3], nhwc[3]};
}

std::string text_of(const ConvolutionCall& call) {
  const char* const names[] = {"convolution", "convolution's input gradient", "convolution's weight gradient"};
  return fmt::format("a {}{} of {}×{}×{}×{} to {}×{}×{}×{} (NHWC) with kernel {}×{} and groups {} in {}",
                     names[static_cast<int>(call.direction)], call.statistics ? " with statistics" : "", call.x[0],
                     call.x[1], call.x[2], call.x[3], call.y[0], call.y[1], call.y[2], call.y[3], call.kernel[0],
                     call.kernel[1], call.groups, name_of(call.type));
}

std::shared_ptr<fe::graph::Tensor_attributes> add_image(fe::graph::Graph& graph, OperandId id,
                                                        const std::array<std::int64_t, 4>& nhwc) {
  return graph.tensor(
      fe::graph::Tensor_attributes().set_uid(id).set_dim(dimensions_of(nhwc)).set_stride(strides_of(nhwc)));
}

void set_result(fe::graph::Tensor_attributes& result, OperandId id, const std::array<std::int64_t, 4>& nhwc) {
  result.set_output(true).set_uid(id).set_dim(dimensions_of(nhwc)).set_stride(strides_of(nhwc));
}

template <typename Attributes>
Attributes convolution_attributes(const ConvolutionCall& call) {
  const auto both = [](const std::array<std::int64_t, 2>& pair) { return Dimensions{pair[0], pair[1]}; };
  return Attributes().set_padding(both(call.padding)).set_stride(both(call.stride)).set_dilation(both(call.dilation));
}

void add_forward(fe::graph::Graph& graph, const ConvolutionCall& call) {
  auto y = graph.conv_fprop(add_image(graph, x_id, call.x), add_image(graph, weights_id, weights_of(call)),
                            convolution_attributes<fe::graph::Conv_fprop_attributes>(call));
  if (call.bias)
    y = graph.pointwise(y, add_image(graph, bias_id, {1, 1, 1, call.y[3]}),
                        fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  if (call.relu) y = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  set_result(*y, y_id, call.y);
  if (!call.statistics) return;
  // Of y in its own type, whatever lies between two operations otherwise.
  y->set_data_type(frontend_type_of(call.type));
  const auto statistics = graph.genstats(y, fe::graph::Genstats_attributes());
  statistics[0]->set_output(true).set_uid(sums_id).set_data_type(fe::DataType_t::FLOAT);
  statistics[1]->set_output(true).set_uid(square_sums_id).set_data_type(fe::DataType_t::FLOAT);
}

void add_operations(fe::graph::Graph& graph, const ConvolutionCall& call) {
  switch (call.direction) {
    case ConvolutionDirection::forward:
      return add_forward(graph, call);
    case ConvolutionDirection::input_gradient: {
      const auto dx = graph.conv_dgrad(add_image(graph, y_id, call.y), add_image(graph, weights_id, weights_of(call)),
                                       convolution_attributes<fe::graph::Conv_dgrad_attributes>(call));
      return set_result(*dx, x_id, call.x);
    }
    case ConvolutionDirection::weight_gradient: {
      const auto dw = graph.conv_wgrad(add_image(graph, y_id, call.y), add_image(graph, x_id, call.x),
                                       convolution_attributes<fe::graph::Conv_wgrad_attributes>(call));
      return set_result(*dw, weights_id, weights_of(call));
    }
  }
}

// Note [Which engines serve]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// cuDNN says of each engine what it does to the numbers. Never used are those that
//   - give other bits when run again (NONDETERMINISTIC);
//   - round the inputs to a smaller type or add up in one (DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION);
//   - filter tiles so large that digits are lost (WINOGRAD_TILE_13x13);
//   - are compiled when they are built: that needs a driver, so a plan made without one would choose another.
// A tensor core takes f32 only as TF32: without it, convolutions of f32 use none (TENSOR_CORE).
//
// Whoever changes these rules, or how CudnnPlans::find describes and chooses, raises version_of_rules: answers are kept
// (Note [Answers that are kept] in cuda/library/known_scratch.h).
constexpr int version_of_rules = 1;

void leave_out_engines(fe::graph::Graph& graph, const ConvolutionCall& call) {
  std::vector<fe::NumericalNote_t> notes = {
      fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
      fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION, fe::NumericalNote_t::WINOGRAD_TILE_13x13};
  if (call.type == DType::f32 && !call.tf32) notes.push_back(fe::NumericalNote_t::TENSOR_CORE);
  graph.deselect_numeric_notes(notes);
  graph.deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
}

std::string version_text_of(std::int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void require_version() {
  constexpr std::int64_t least_version = 91100;
  const std::int64_t version = CudnnPlans::cudnn_version();
  if (version < least_version)
    throw DeviceError(
        fmt::format("cuDNN {} is too old to plan a convolution: install cuDNN 9.11 or later, best the {} "
                    "that this build was made with (`{}` shows the one that is there), or use device.type=cpu",
                    version_text_of(version), version_text_of(CUDNN_VERSION), trainer_command("doctor")));
}

/// Runs on the stream it is given, in the memory it is given.
class CudnnConvolution final : public Convolution {
 public:
  /// The plan at `index` of `graph`, which is built.
  CudnnConvolution(fe::graph::Graph graph, std::int64_t index, const ConvolutionCall& call, cudnnHandle_t handle)
      : handle_(handle),
        has_bias_(call.bias),
        has_statistics_(call.statistics),
        graph_(std::move(graph)),
        index_(index) {
    for (const OperandId id : {x_id, weights_id, y_id}) addresses_[id] = nullptr;
    if (has_bias_) addresses_[bias_id] = nullptr;
    if (has_statistics_)
      for (const OperandId id : {sums_id, square_sums_id}) addresses_[id] = nullptr;
  }

  void run(const ConvolutionOperands& operands, Stream stream) override {
    addresses_[x_id] = operands.x;
    addresses_[weights_id] = operands.weights;
    addresses_[y_id] = operands.y;
    // The graph only reads it.
    if (has_bias_) addresses_[bias_id] = const_cast<void*>(operands.bias);
    if (has_statistics_) {
      addresses_[sums_id] = operands.sums;
      addresses_[square_sums_id] = operands.square_sums;
    }
    if (const cudnnStatus_t status = cudnnSetStream(handle_, stream); status != CUDNN_STATUS_SUCCESS)
      fail(stream, cudnnGetErrorString(status));
    const fe::error_t error = graph_.execute_plan_at_index(handle_, addresses_, operands.workspace, index_);
    if (error.is_bad()) fail(stream, first_line_of(error));
  }

 private:
  [[noreturn]] static void fail(Stream stream, std::string_view reason) {
    require_no_fault(stream, "run a convolution");
    throw DeviceError(
        fmt::format("cuDNN could not run a convolution: {}; the run's last checkpoint is intact: continue it with "
                    "--resume. --debug-sync names the op that fails",
                    reason));
  }

  cudnnHandle_t handle_;
  bool has_bias_, has_statistics_;
  fe::graph::Graph graph_;
  std::int64_t index_;
  std::unordered_map<std::int64_t, void*> addresses_;
};

/// Describes `call` in `graph`, so that plans can be made of it: for what `properties` describe, or with a handle for
/// its own device.
void describe(fe::graph::Graph& graph, const ConvolutionCall& call,
              const std::shared_ptr<const fe::DeviceProperties>& properties, cudnnHandle_t handle) {
  graph.set_io_data_type(frontend_type_of(call.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (handle == nullptr) graph.set_device_properties(properties);
  add_operations(graph, call);
  require_cudnn(graph.validate(), "take the description of a convolution");
  require_cudnn(handle == nullptr ? graph.build_operation_graph() : graph.build_operation_graph(handle),
                "take the description of a convolution");
}

// Note [The first engines]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// The frontend's create_execution_plans has cuDNN make all that its heuristics propose, some 40 engines with their
// settings, which takes 30 times as long as to propose them (1 to 3 ms of each question). The first of them nearly
// always serves. cuDNN makes no more than it is asked for, in the same order, so the first are asked for first.

/// A description whose engines are asked for as they are needed.
class ProposedEngines final : public fe::graph::Graph {
 public:
  ProposedEngines(const ConvolutionCall& call, std::shared_ptr<const fe::DeviceProperties> properties)
      : call_(call), properties_(std::move(properties)) {
    describe(*this, call, properties_, nullptr);
    plans.set_tag(operation_graph->getTag());
  }

  /// Whether there is a plan at `index` of what `mode` proposes behind those that were asked for in other modes. Asks
  /// for `num_asked` at first.
  bool reaches(std::int64_t index, cudnnBackendHeurMode_t mode, std::int64_t num_asked) {
    if (mode != mode_) {
      mode_ = mode;
      begin_ = get_execution_plan_count();
      num_proposed_ = -1;
      num_asked_ = 0;
    }
    while (index >= get_execution_plan_count() && num_asked_ != num_proposed_)
      ask_for(num_asked_ == 0 ? num_asked : num_asked_ * 16);
    return index < get_execution_plan_count();
  }

  /// Why there was none.
  const std::string& problem() const { return problem_; }

 private:
  /// The first `count` in all; those that are there already stay.
  void ask_for(std::int64_t count) {
    fe::EngineConfigList engines;
    try {
      auto heuristics = fe::EngineHeuristicsBuilder_v8()
                            .setDeviceProperties(properties_)
                            .setOperationGraph(*operation_graph)
                            .setHeurMode(mode_)
                            .build();
      num_proposed_ = heuristics.getEngineConfigCount();
      num_asked_ = std::min(count, num_proposed_);
      engines = heuristics.getEngineConfig(num_asked_);
    } catch (const fe::cudnnException&) {
      num_proposed_ = num_asked_ = 0;
    }
    if (engines.empty()) problem_ = fmt::format("No valid engine configs for {}", operation_graph->getTag());
    const auto num_known = std::min<std::ptrdiff_t>(get_execution_plan_count() - begin_, std::ssize(engines));
    plans.enqueue_engine_configs({engines.begin() + num_known, engines.end()});
    if (const fe::error_t error = plans.query_properties(); error.is_bad()) problem_ = first_line_of(error);
    leave_out_engines(*this, call_);
  }

  ConvolutionCall call_;
  std::shared_ptr<const fe::DeviceProperties> properties_;
  cudnnBackendHeurMode_t mode_ = CUDNN_HEUR_MODES_COUNT;
  std::int64_t begin_ = 0;          ///< of the mode's among all plans
  std::int64_t num_proposed_ = -1;  ///< by the mode; -1: not known
  std::int64_t num_asked_ = 0;
  std::string problem_ = "no engine serves";
};

}  // namespace

struct CudnnPlans::Device {
  std::shared_ptr<fe::DeviceProperties> properties = std::make_shared<fe::DeviceProperties>();
  std::string name;
  bool holds_nvrtc = false;
  std::optional<HeldLibrary> nvrtc;
};

CudnnPlans::CudnnPlans(const std::string& properties_json, bool holds_nvrtc) : device_(std::make_unique<Device>()) {
  require_version();
  device_->holds_nvrtc = holds_nvrtc;
  device_->name = device_name_in(properties_json);
  const fe::error_t error = device_->properties->deserialize({properties_json.begin(), properties_json.end()});
  if (error.is_bad())
    throw DeviceError(
        fmt::format("cuDNN does not take the properties of the device '{}' (CUDNN_LOGLEVEL_DBG=2 tells which): {}",
                    device_->name, first_line_of(error)));
}

CudnnPlans::~CudnnPlans() = default;
CudnnPlans::CudnnPlans(CudnnPlans&&) noexcept = default;
CudnnPlans& CudnnPlans::operator=(CudnnPlans&&) noexcept = default;

const std::string& CudnnPlans::device_name() const { return device_->name; }
std::int64_t CudnnPlans::cudnn_version() { return static_cast<std::int64_t>(cudnnGetVersion()); }

std::string CudnnPlans::identity(const std::string& properties_json) {
  return fmt::format("cuDNN {}, frontend {}, rules {}, {}", cudnn_version(), CUDNN_FRONTEND_VERSION, version_of_rules,
                     properties_json);
}

bool CudnnPlans::has_nvrtc() {
  static const bool is_found = HeldLibrary(nvrtc_name()).is_held();
  return is_found;
}

std::vector<CudnnPlan> CudnnPlans::find(const ConvolutionCall& call, std::size_t max_plans) const {
  if ((call.statistics || device_->holds_nvrtc) && !device_->nvrtc) device_->nvrtc.emplace(nvrtc_name());
  ProposedEngines graph(call, device_->properties);
  std::vector<CudnnPlan> plans, too_large;
  std::int64_t next = 0;
  // The fallback's engines are asked for only where the heuristics' do not suffice.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (; plans.size() < max_plans && graph.reaches(next, mode, static_cast<std::int64_t>(max_plans)); ++next) {
      if (graph.build_plan_at_index(next).is_bad()) continue;
      CudnnPlan plan;
      plan.workspace_bytes = graph.get_workspace_size_plan_at_index(next);
      require_cudnn(graph.get_plan_name_at_index(next, plan.engine), "name an engine");
      const bool fits = plan.workspace_bytes <= call.workspace_limit;
      if (!fits && !too_large.empty() && too_large[0].workspace_bytes <= plan.workspace_bytes) continue;
      require_cudnn(graph.serialize(plan.serialized, false), "write down the plan of a convolution");
      if (fits) {
        plans.push_back(std::move(plan));
      } else {
        too_large.clear();
        too_large.push_back(std::move(plan));
      }
    }
  }
  if (plans.empty()) plans = std::move(too_large);
  if (plans.empty())
    throw DeviceError(fmt::format(
        "cuDNN {} has no engine for {} on {}: {}; use {}a smaller batch (train.batch_size), or device.type=cpu",
        cudnn_version(), text_of(call), device_->name, graph.problem(),
        call.type == DType::bf16 ? "train.amp=fp16 where the GPU is older than compute capability 8.0, " : ""));
  return plans;
}

std::string cudnn_device_properties(cudnnHandle_t handle) {
  fe::DeviceProperties properties;
  const fe::error_t error = properties.set_handle(handle).set_device_id(-1).build();
  if (error.is_bad()) require_no_fault(nullptr, "tell the properties of the device");
  require_cudnn(error, "tell the properties of the device");
  std::vector<std::uint8_t> json;
  require_cudnn(properties.serialize(json), "tell the properties of the device");
  std::string text(json.begin(), json.end());
  return text.substr(0, text.find('\0'));
}

std::unique_ptr<Convolution> load_cudnn_plan(const CudnnPlan& plan, const ConvolutionCall& call, cudnnHandle_t handle) {
  fe::graph::Graph graph;
  // Without the trial run that the frontend offers, which would need memory.
  const fe::error_t error = graph.deserialize(handle, plan.serialized, true, false);
  if (error.is_bad()) require_no_fault(nullptr, "load the plan of a convolution");
  require_cudnn(error, "load the plan of a convolution");
  if (graph.get_workspace_size() != plan.workspace_bytes)
    throw DeviceError(
        fmt::format("{} on this device needs {} bytes of scratch where {} were planned: cuDNN is not the one that the "
                    "plan was made with (`{}` shows its version); install that, or use device.type=cpu",
                    text_of(call), graph.get_workspace_size(), plan.workspace_bytes, trainer_command("doctor")));
  // What was written down is one plan.
  return std::make_unique<CudnnConvolution>(std::move(graph), 0, call, handle);
}

std::unique_ptr<Convolution> plan_cudnn_here(const CudnnPlan& planned, const ConvolutionCall& call,
                                             cudnnHandle_t handle) {
  fe::graph::Graph graph;
  describe(graph, call, nullptr, handle);
  std::string problem = "no engine serves";
  std::int64_t next = 0;
  for (const fe::HeurMode_t mode : {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}) {
    if (const fe::error_t error = graph.create_execution_plans({mode}); error.is_bad()) problem = first_line_of(error);
    leave_out_engines(graph, call);
    const std::int64_t end = graph.get_execution_plan_count();
    for (const bool of_same_engine : {true, false}) {
      for (std::int64_t index = next; index < end; ++index) {
        std::string engine;
        require_cudnn(graph.get_plan_name_at_index(index, engine), "name an engine");
        if ((engine == planned.engine) != of_same_engine || graph.build_plan_at_index(index).is_bad()) continue;
        if (graph.get_workspace_size_plan_at_index(index) > planned.workspace_bytes) continue;
        return std::make_unique<CudnnConvolution>(std::move(graph), index, call, handle);
      }
    }
    next = end;
  }
  require_no_fault(nullptr, "plan a convolution");
  throw DeviceError(fmt::format("cuDNN has no engine for {} within the {} bytes of scratch that were planned: {}",
                                text_of(call), planned.workspace_bytes, problem));
}

}  // namespace trainer::cuda
