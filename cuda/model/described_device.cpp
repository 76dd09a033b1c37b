#include "cuda/model/described_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cuda/model/bounded_planner.h"
#include "cuda/model/load_module.h"
#include "cuda/model/nccl_memory.h"
#include "cuda/ops/attention_call.h"
#include "cuda/ops/kernels.h"
#include "engine/bytes.h"
#include "engine/config/text/json_input.h"
#include "engine/config/yaml/compose.h"
#include "engine/errors.h"
#include "engine/trainer_command.h"

namespace trainer::cuda {
namespace {

/// What the profile's file tells cuDNN; empty where it names none. Throws ConfigError for one of another GPU.
std::string properties_of(const GpuProfile& profile) {
  if (profile.cudnn.empty()) return {};
  const std::string path = profile.cudnn_path();
  std::string text;
  try {
    text = read_config_file(path);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: key 'cudnn': {}", profile.path, error.what()));
  }
  const auto properties = parse_json<nlohmann::json>(text);
  if (!properties) throw ConfigError(fmt::format("{}: is not JSON", path));
  const auto number = [&](const char* key) {
    try {
      return JsonInput(*properties).at(key).integer();
    } catch (const JsonMistake& mistake) {
      throw ConfigError(fmt::format("{}: {}, which cuDNN needs to know", path, mistake.what()));
    }
  };
  const std::int64_t version = number("deviceVer") / 10, num_multiprocessors = number("multiProcessorCount");
  if (version != profile.compute_capability || num_multiprocessors != profile.num_multiprocessors) {
    throw ConfigError(fmt::format(
        "{}: describes sm_{} with {} multiprocessors to cuDNN; the profile {} says sm_{} with {}", path, version,
        num_multiprocessors, profile.path, profile.compute_capability, profile.num_multiprocessors));
  }
  return text;
}

/// cuDNN's planners; none where it cannot be asked, and `reason` says why.
DescribedDevice::Planners ask_cudnn(const GpuProfile& profile, const CudaOptions& options, std::string& reason) {
  const std::string properties = properties_of(profile);
  if (properties.empty()) {
    reason = "the profile names no file with properties for cuDNN";
    return {};
  }
  std::string problem;
  const Module* module = load_module(problem);
  if (module == nullptr) {
    reason = fmt::format("cuDNN is not at hand to choose kernels; '{}' tells why", trainer_command("doctor"));
    return {};
  }
  try {
    return {.convolutions = module->make_planner(properties, options),
            .matmuls = module->make_matmul_planner(properties, options),
            .attentions = module->make_attention_planner(properties)};
  } catch (const DeviceError& error) {
    reason = error.what();
    return {};
  }
}

}  // namespace

DescribedDevice::DescribedDevice(const GpuProfile& profile, const CudaOptions& options, Planners planners,
                                 Bounds bounds)
    : name_(profile.name),
      options_(options),
      has_bf16_(profile.compute_capability >= 80),
      planners_(std::move(planners)),
      bounds_(std::move(bounds)),
      outside_allocator_{{"estimated CUDA context", profile.context_bytes},
                         {"estimated library handles and kernels", profile.library_bytes}} {
  if (const std::int64_t of_nccl = estimated_nccl_memory(options.sums).num_bytes; of_nccl > 0)
    outside_allocator_.push_back({"estimated NCCL buffers", of_nccl});
}

CommunicationMemory DescribedDevice::communication_memory(const RankLayout& ranks) const {
  return estimated_nccl_memory({.layout = ranks, .in_order = options_.sums.in_order});
}

void DescribedDevice::require_precision_of(const Op& op) const {
  const auto is_bf16 = [](const TensorType& type) { return type.dtype == DType::bf16; };
  if (!has_bf16_ && (std::any_of(op.inputs.begin(), op.inputs.end(), is_bf16) ||
                     std::any_of(op.outputs.begin(), op.outputs.end(), is_bf16))) {
    throw DeviceError(
        fmt::format("{} has no bf16, which needs compute capability 8.0; train.amp=fp16 runs there", name_));
  }
}

WorkspaceModel DescribedDevice::workspace_model() const {
  return {.convolutions = planners_.convolutions.get(),
          .tf32 = options_.tf32,
          .matmuls = planners_.matmuls.get(),
          .attentions = planners_.attentions.get(),
          .deterministic = options_.deterministic,
          .sums_in_order = options_.sums.in_order};
}

std::int64_t DescribedDevice::workspace_bytes(const Op& op) const {
  require_precision_of(op);
  has_convolution_ = has_convolution_ || std::holds_alternative<Conv2dAttributes>(op.attributes);
  has_product_ = has_product_ || std::holds_alternative<LinearAttributes>(op.attributes) ||
                 std::holds_alternative<LinearCrossEntropyAttributes>(op.attributes);
  if (op.kind == OpKind::attention || op.kind == OpKind::attention_backward)
    if (const auto call = attention_call(op, options_.deterministic))
      largest_attention_limit_ = std::max(largest_attention_limit_, call->workspace_limit);
  return compute_workspace_bytes(op, workspace_model());
}

std::int64_t DescribedDevice::most_workspace_bytes(const Op& op) const {
  require_precision_of(op);
  // A timed product may take more than what is planned without.
  if (planners_.matmuls != nullptr) return unknown_workspace_bytes;
  return compute_most_workspace_bytes(op, workspace_model());
}

bool DescribedDevice::convolution_statistics(const Op& conv2d) const {
  return conv2d_statistics_pay(conv2d, workspace_model());
}

std::string DescribedDevice::workspace_bound() const {
  const auto have = [](std::int64_t count, const char* what) {
    return count == 1 ? fmt::format("1 {} has", what) : fmt::format("{} {}s have", count, what);
  };
  std::vector<std::string> sentences;
  if (has_convolution_ && !bounds_.convolutions.empty()) {
    sentences.push_back(bounds_.convolutions);
  } else if (const std::int64_t num_untuned = planners_.convolutions->num_untuned(); num_untuned > 0) {
    sentences.push_back(fmt::format(
        "device.autotune: {} not been timed on this GPU by this user. The scratch is cuDNN's first choice's; a timed "
        "one never needs more.",
        have(num_untuned, "convolution")));
  }
  if (has_product_ && !bounds_.products.empty()) sentences.push_back(bounds_.products);
  if (const std::int64_t num_untuned = planners_.matmuls == nullptr ? 0 : planners_.matmuls->num_untuned();
      num_untuned > 0) {
    sentences.push_back(fmt::format(
        "device.autotune: {} not been timed on this GPU by this user. The scratch is that of cuBLASLt's first choice; "
        "the first run keeps to it, and those behind it may take up to 32 MiB.",
        have(num_untuned, "product")));
  }
  if (const std::string reason = planners_.attentions == nullptr ? "" : planners_.attentions->bound_reason();
      largest_attention_limit_ > 0 && !reason.empty())
    sentences.push_back(
        fmt::format("The scratch of attention is counted with its bound, {} a call at most, and may be less: {}.",
                    format_bytes(largest_attention_limit_), reason));
  return fmt::format("{}", fmt::join(sentences, " "));
}

std::unique_ptr<DescribedDevice> make_described_device(const GpuProfile& profile, const CudaOptions& options,
                                                       std::int64_t workspace_limit) {
  std::string reason;
  DescribedDevice::Planners planners = ask_cudnn(profile, options, reason);
  DescribedDevice::Bounds bounds;
  if (planners.convolutions == nullptr) {
    planners.convolutions = std::make_unique<BoundedConvolutionPlanner>();
    planners.attentions = std::make_unique<BoundedAttentionPlanner>(reason);
    bounds.convolutions = fmt::format(
        "The scratch of convolutions is counted with its bound, "
        "memory.workspace_limit, {} a call, and may be less: {}.",
        format_bytes(workspace_limit), reason);
    if (options.autotune)
      bounds.products = fmt::format(
          "device.autotune: the scratch of products is that of cuBLASLt's first choice, and a timed one may take up to "
          "32 MiB; what has been timed cannot be looked up here: {}.",
          reason);
  }
  if (profile.compute_capability < least_attention_capability) planners.attentions = nullptr;
  return std::make_unique<DescribedDevice>(profile, options, std::move(planners), std::move(bounds));
}

}  // namespace trainer::cuda
