#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/cpu/depthwise_weights.h"
#include "engine/cpu/dnnl_call.h"
#include "engine/cpu/dnnl_exceptions.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/relu.h"

namespace trainer {

namespace {

using Tag = dnnl::memory::format_tag;
using Memory = dnnl::memory::desc;

constexpr std::int64_t alignment = 64;
std::int64_t aligned(std::size_t num_bytes) {
  return (static_cast<std::int64_t>(num_bytes) + alignment - 1) / alignment * alignment;
}

Memory describe(const dnnl::memory::dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// The operands of a convolution in oneDNN's words: logical dimensions are NCHW and OIHW (GOIHW), memory is NHWC and
/// OHWI (GOHWI).
struct ConvolutionShape {
  Memory x, y, bias, plain_weights, any_weights;
  dnnl::memory::dims strides, dilates, padding_before, padding_after;
  bool has_bias = false;
  std::int64_t input_channels_per_group = 0;
  std::int64_t workspace_limit = 0;
};

ConvolutionShape shape_of(const Conv2dAttributes& a, const Shape& x, const Shape& y) {
  ConvolutionShape s;
  const std::int64_t channels = x[3];
  s.x = describe({x[0], channels, x[1], x[2]}, Tag::nhwc);
  s.y = describe({y[0], a.out, y[1], y[2]}, Tag::nhwc);
  s.has_bias = a.bias;
  if (a.bias) s.bias = describe({a.out}, Tag::a);
  s.input_channels_per_group = channels / a.groups;
  s.workspace_limit = a.workspace_limit;
  dnnl::memory::dims weights = {a.out, channels / a.groups, a.kernel[0], a.kernel[1]};
  if (a.groups > 1) weights = {a.groups, a.out / a.groups, channels / a.groups, a.kernel[0], a.kernel[1]};
  s.plain_weights = describe(weights, a.groups > 1 ? Tag::gohwi : Tag::ohwi);
  s.any_weights = describe(weights, Tag::any);
  s.strides = {a.stride[0], a.stride[1]};
  s.dilates = {a.dilation[0] - 1, a.dilation[1] - 1};
  s.padding_before = {a.padding[0], a.padding[1]};
  // What the last window covers beyond the image: less than the padding, even negative, where the stride leaves a
  // rest.
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t reach =
        (y[axis + 1] - 1) * a.stride[static_cast<std::size_t>(axis)] +
        a.dilation[static_cast<std::size_t>(axis)] * (a.kernel[static_cast<std::size_t>(axis)] - 1) + 1;
    s.padding_after.push_back(reach - x[axis + 1] - a.padding[static_cast<std::size_t>(axis)]);
  }
  return s;
}

ConvolutionShape shape_of(const Op& op) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  if (op.kind == OpKind::conv2d) return shape_of(attributes, op.inputs[0].shape, op.outputs[0].shape);
  if (op.kind == OpKind::conv2d_backward_weight) return shape_of(attributes, op.inputs[1].shape, op.inputs[0].shape);
  auto s = shape_of(attributes, op.outputs[0].shape, op.inputs[0].shape);
  s.has_bias = false;  // the input's gradient does not depend on it
  return s;
}

using Forward = dnnl::convolution_forward;
using BackwardInput = dnnl::convolution_backward_data;
using BackwardWeight = dnnl::convolution_backward_weights;

/// Note [Winograd]. Winograd's minimal filtering F(4×4, 3×3) (Lavin and Gray, 2015) takes a quarter of the
/// multiplications of a 3×3 convolution. oneDNN has it for AVX-512, on images in its own order (nChw16c). Measured on
/// Zen 4 it takes 45 % of the direct kernel's time, 55 % with the reorders of both images. Its results are as close to
/// the exact ones (relative, root mean square: 1e-6 forward, 7e-7 for weight gradients; direct: 7e-7 and 3e-6). The
/// price is workspace: oneDNN's own, and copies of both images. memory.workspace_limit bounds it, and every byte of it
/// must save enough, so that small layers take the direct kernel. At batch 64 and with two threads ResNet-18's
/// convolutions have 68 to 117 FLOPs a byte, of 32 to 64 channels on 28×28 pixels 64; on 8×8 pixels 13.
constexpr double min_winograd_flops_per_workspace_byte = 30;

std::int64_t max_winograd_workspace(const ConvolutionShape& s) {
  const auto& w = s.plain_weights.data.dims;
  const auto& y = s.y.data.dims;
  const double flops = 2.0 * static_cast<double>(y[0] * y[1] * y[2] * y[3]) * static_cast<double>(w[1] * w[2] * w[3]);
  return std::min(s.workspace_limit, static_cast<std::int64_t>(flops / min_winograd_flops_per_workspace_byte));
}

bool winograd_pays(const ConvolutionShape& s) {
  const auto& x = s.x.data.dims;  // N, C, H, W
  const auto& y = s.y.data.dims;
  const auto& w = s.plain_weights.data;
  const bool is_3x3 = w.ndims == 4 && w.dims[2] == 3 && w.dims[3] == 3;
  const bool dense = s.strides == dnnl::memory::dims{1, 1} && s.dilates == dnnl::memory::dims{0, 0};
  // Fewer channels or pixels do not make up for the transforms; a tile has 4×4 outputs.
  return is_3x3 && dense && x[1] >= 32 && y[1] >= 32 && x[1] % 16 == 0 && y[1] % 16 == 0 && y[2] >= 4 && y[3] >= 4 &&
         y[0] * y[2] * y[3] >= 256;
}

/// The same operands, the images in whatever order oneDNN likes.
ConvolutionShape any_order(ConvolutionShape s) {
  const auto in_any_order = [](const Memory& m) { return describe(m.dims(), Tag::any); };
  s.x = in_any_order(s.x);
  s.y = in_any_order(s.y);
  return s;
}

Forward::primitive_desc describe_forward(const ConvolutionShape& s, dnnl::algorithm algorithm,
                                         const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto description = s.has_bias ? Forward::desc(kind, algorithm, s.x, s.any_weights, s.bias, s.y, s.strides,
                                                      s.dilates, s.padding_before, s.padding_after)
                                      : Forward::desc(kind, algorithm, s.x, s.any_weights, s.y, s.strides, s.dilates,
                                                      s.padding_before, s.padding_after);
  Forward::primitive_desc chosen(description, user_scratchpad(), engine, true);
  // Measured on Zen 4: with few input channels (the first layer) the direct kernel takes two thirds of the time of the
  // one through small matrix products, which oneDNN 2.6 puts first. next_impl reads `description`, so it stands here.
  const auto is_batched_gemm = [&] { return std::string_view(chosen.impl_info_str()).starts_with("brgconv"); };
  if (chosen && s.input_channels_per_group < 16)
    while (is_batched_gemm() && chosen.next_impl()) continue;
  return chosen;
}

BackwardInput::primitive_desc describe_backward_input(const ConvolutionShape& s, dnnl::algorithm algorithm,
                                                      const dnnl::engine& engine) {
  const auto hint = describe_forward(s, algorithm, engine);
  if (!hint) return {};
  return {
      BackwardInput::desc(algorithm, s.x, s.any_weights, s.y, s.strides, s.dilates, s.padding_before, s.padding_after),
      user_scratchpad(), engine, hint, true};
}

BackwardWeight::primitive_desc describe_backward_weight(const ConvolutionShape& s, dnnl::algorithm algorithm,
                                                        const dnnl::engine& engine) {
  const auto hint = describe_forward(s, algorithm, engine);
  if (!hint) return {};
  const auto description = s.has_bias ? BackwardWeight::desc(algorithm, s.x, s.any_weights, s.bias, s.y, s.strides,
                                                             s.dilates, s.padding_before, s.padding_after)
                                      : BackwardWeight::desc(algorithm, s.x, s.any_weights, s.y, s.strides, s.dilates,
                                                             s.padding_before, s.padding_after);
  BackwardWeight::primitive_desc chosen(description, user_scratchpad(), engine, hint, true);
  // oneDNN 2.6's 1×1 kernel for AVX2 gives other bits now and then where it has a stride and two threads: they meet
  // over the pixels that it gathers. The direct kernel behind it does not.
  const bool has_stride = s.strides != dnnl::memory::dims{1, 1};
  while (chosen && has_stride && std::string_view(chosen.impl_info_str()) == "jit_1x1:avx2" && chosen.next_impl())
    continue;
  return chosen;
}

dnnl::reorder::primitive_desc describe_reorder(const Memory& from, const Memory& to, const dnnl::engine& engine) {
  return {engine, from, engine, to, user_scratchpad()};
}

/// An operand of the op and of the convolution, which may want it in another order. Then it is copied each time the op
/// runs, weights too: forward and backward want them in different orders, and no copy outlives its op. So a step
/// reorders the weights of a convolution once in each direction and micro-batch.
struct ConvolutionOperand {
  int argument;
  Memory plain, chosen;
  bool is_input;
  std::size_t position;  ///< among the op's inputs or outputs

  bool is_reordered() const { return plain != chosen; }
  const Memory& from() const { return is_input ? plain : chosen; }
  const Memory& to() const { return is_input ? chosen : plain; }
};

/// A convolution by one algorithm, what it takes, and where in the workspace the reordered operands lie, in order,
/// before the scratchpad that the convolution and the reorders, which do not run at the same time, share.
struct ConvolutionPlan {
  dnnl::primitive_desc_base description;
  std::vector<ConvolutionOperand> operands;
  std::int64_t reordered_bytes = 0, scratchpad_bytes = 0;

  std::int64_t workspace_bytes() const { return reordered_bytes + scratchpad_bytes; }

  ConvolutionPlan(const dnnl::primitive_desc_base& chosen, std::vector<ConvolutionOperand> all,
                  const dnnl::engine& engine)
      : description(chosen), operands(std::move(all)), scratchpad_bytes(aligned(chosen.scratchpad_desc().get_size())) {
    for (const ConvolutionOperand& operand : operands) {
      if (!operand.is_reordered()) continue;
      reordered_bytes += aligned(operand.chosen.get_size());
      const auto reorder = describe_reorder(operand.from(), operand.to(), engine);
      scratchpad_bytes = std::max(scratchpad_bytes, aligned(reorder.scratchpad_desc().get_size()));
    }
  }
};

/// Nothing where oneDNN does not have the algorithm for this shape.
std::optional<ConvolutionPlan> plan_by(dnnl::algorithm algorithm, const Op& op, const ConvolutionShape& plain,
                                       const dnnl::engine& engine) {
  const ConvolutionShape s = algorithm == dnnl::algorithm::convolution_winograd ? any_order(plain) : plain;
  if (op.kind == OpKind::conv2d) {
    const auto chosen = describe_forward(s, algorithm, engine);
    if (!chosen) return std::nullopt;
    std::vector<ConvolutionOperand> operands = {{DNNL_ARG_SRC, plain.x, chosen.src_desc(), true, 0},
                                                {DNNL_ARG_WEIGHTS, plain.plain_weights, chosen.weights_desc(), true, 1},
                                                {DNNL_ARG_DST, plain.y, chosen.dst_desc(), false, 0}};
    if (plain.has_bias) operands.push_back({DNNL_ARG_BIAS, plain.bias, plain.bias, true, 2});
    return ConvolutionPlan(chosen, std::move(operands), engine);
  }
  if (op.kind == OpKind::conv2d_backward_input) {
    const auto chosen = describe_backward_input(s, algorithm, engine);
    if (!chosen) return std::nullopt;
    return ConvolutionPlan(chosen,
                           {{DNNL_ARG_DIFF_DST, plain.y, chosen.diff_dst_desc(), true, 0},
                            {DNNL_ARG_WEIGHTS, plain.plain_weights, chosen.weights_desc(), true, 1},
                            {DNNL_ARG_DIFF_SRC, plain.x, chosen.diff_src_desc(), false, 0}},
                           engine);
  }
  const auto chosen = describe_backward_weight(s, algorithm, engine);
  if (!chosen) return std::nullopt;
  std::vector<ConvolutionOperand> operands = {
      {DNNL_ARG_DIFF_DST, plain.y, chosen.diff_dst_desc(), true, 0},
      {DNNL_ARG_SRC, plain.x, chosen.src_desc(), true, 1},
      {DNNL_ARG_DIFF_WEIGHTS, plain.plain_weights, chosen.diff_weights_desc(), false, 0}};
  if (plain.has_bias) operands.push_back({DNNL_ARG_DIFF_BIAS, plain.bias, plain.bias, false, 1});
  return ConvolutionPlan(chosen, std::move(operands), engine);
}

/// How an op is computed: the same for the same op, always.
ConvolutionPlan plan_of(const Op& op, const dnnl::engine& engine) {
  const ConvolutionShape s = shape_of(op);
  if (winograd_pays(s)) {
    auto winograd = plan_by(dnnl::algorithm::convolution_winograd, op, s, engine);
    if (winograd && std::string_view(winograd->description.impl_info_str()).starts_with("jit_wino") &&
        winograd->workspace_bytes() <= max_winograd_workspace(s))
      return *std::move(winograd);
  }
  auto direct = plan_by(dnnl::algorithm::convolution_direct, op, s, engine);
  if (!direct) require_dnnl(dnnl_unimplemented, "convolution");
  return *std::move(direct);
}

/// Whether oneDNN has no kernel for single channels where that matters: Note [Gradients of depthwise weights] in
/// engine/cpu/depthwise_weights.h.
bool takes_own_kernel(const Op& op, const ConvolutionPlan& plan) {
  return is_depthwise_weight_gradient(op) &&
         std::string_view(plan.description.impl_info_str()).find("_dw") == std::string_view::npos;
}

/// A convolution of any direction, reorders included.
class ConvolutionKernel final : public CpuKernel {
 public:
  ConvolutionKernel(const Op& op, const ConvolutionPlan& plan, const CpuContext& context, const dnnl::engine& engine)
      : context_(context), scratchpad_offset_(plan.reordered_bytes), convolution_(plan.description.get()) {
    std::int64_t offset = 0;
    for (const ConvolutionOperand& operand : plan.operands) {
      convolution_.add_argument(operand.argument, operand.chosen.data, context);
      Binding binding{operand.is_input, operand.position, -1, {}};
      if (operand.is_reordered()) {
        const auto reorder = describe_reorder(operand.from(), operand.to(), engine);
        binding.offset = offset;
        binding.reorder = DnnlCall(reorder.get());
        binding.reorder.add_argument(DNNL_ARG_FROM, operand.from().data, context);
        binding.reorder.add_argument(DNNL_ARG_TO, operand.to().data, context);
        binding.reorder.add_argument(DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc().data, context);
        offset += aligned(operand.chosen.get_size());
      }
      bindings_.push_back(std::move(binding));
    }
    convolution_.add_argument(DNNL_ARG_SCRATCHPAD, plan.description.scratchpad_desc().data, context);
    if (op.kind == OpKind::conv2d) {
      const auto& attributes = attributes_of<Conv2dAttributes>(op);
      const std::int64_t num_elements = op.outputs[0].num_elements();
      if (attributes.relu) relu_elements_ = num_elements;
      if (attributes.statistics) statistics_of_ = {num_elements / attributes.out, attributes.out};
    }
  }

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    char* const workspace = static_cast<char*>(addresses.workspace);
    void* const scratchpad = workspace == nullptr ? nullptr : workspace + scratchpad_offset_;
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      Binding& binding = bindings_[i];
      void* const plain = binding.is_input ? addresses.inputs[binding.position] : addresses.outputs[binding.position];
      convolution_.set_address(i, binding.offset < 0 ? plain : workspace + binding.offset);
      if (binding.offset < 0) continue;
      binding.reorder.set_address(binding.is_input ? 0 : 1, plain);
      binding.reorder.set_address(binding.is_input ? 1 : 0, workspace + binding.offset);
      binding.reorder.set_address(2, scratchpad);
      if (binding.is_input) binding.reorder.execute(context_);
    }
    convolution_.set_address(bindings_.size(), scratchpad);
    convolution_.execute(context_);
    for (const Binding& binding : bindings_)
      if (binding.offset >= 0 && !binding.is_input) binding.reorder.execute(context_);
    if (relu_elements_ > 0)
      relu_in_place(static_cast<float*>(addresses.outputs[0]), relu_elements_, context_.num_threads);
    if (statistics_of_.rows > 0) find_statistics(addresses);
  }

 private:
  /// For programs that were made for other devices: the CPU's own have no statistics.
  void find_statistics(const OperandAddresses& addresses) const {
    const auto* const y = static_cast<const float*>(addresses.outputs[0]);
    for (std::int64_t c = 0; c < statistics_of_.channels; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t row = 0; row < statistics_of_.rows; ++row) {
        const auto value = static_cast<double>(y[row * statistics_of_.channels + c]);
        sum += value;
        squares += value * value;
      }
      static_cast<float*>(addresses.outputs[1])[c] = static_cast<float>(sum);
      static_cast<float*>(addresses.outputs[2])[c] = static_cast<float>(squares);
    }
  }

  struct Rows {
    std::int64_t rows = 0, channels = 0;
  };
  struct Binding {
    bool is_input;
    std::size_t position;
    std::int64_t offset;  ///< of the reordered operand in the workspace; −1 where the plain order serves
    DnnlCall reorder;
  };
  const CpuContext& context_;
  std::int64_t scratchpad_offset_;
  DnnlCall convolution_;
  std::vector<Binding> bindings_;
  std::int64_t relu_elements_ = 0;
  Rows statistics_of_;  ///< no rows: none are wanted
};

std::unique_ptr<CpuKernel> make_convolution_kernel(const Op& op, const CpuContext& context) {
  return translating_dnnl_exceptions([&]() -> std::unique_ptr<CpuKernel> {
    const dnnl::engine engine(context.engine, true);
    const ConvolutionPlan plan = plan_of(op, engine);
    if (takes_own_kernel(op, plan)) return make_depthwise_weights_kernel(op, context);
    return std::make_unique<ConvolutionKernel>(op, plan, context, engine);
  });
}

std::optional<Cut> cut_conv2d(const Op& op) {
  return cut_forward(op, op.inputs[0].shape[0], Part::sum);  // behind y may stand its statistics
}
std::optional<Cut> cut_conv2d_backward_input(const Op& op) { return cut_input_gradient(op, op.inputs[0].shape[0]); }
std::optional<Cut> cut_conv2d_backward_weight(const Op& op) { return cut_weight_gradient(op, op.inputs[0].shape[0]); }

std::int64_t conv2d_workspace_bytes(const Op& op, CpuContext& context) {
  return translating_dnnl_exceptions([&] {
    const ConvolutionPlan plan = plan_of(op, dnnl::engine(context.engine, true));
    return takes_own_kernel(op, plan) ? depthwise_weights_workspace_bytes(op) : plan.workspace_bytes();
  });
}

std::unique_ptr<CpuKernel> make_conv2d_kernel(const Op& op, CpuContext& context) {
  return make_convolution_kernel(op, context);
}
std::unique_ptr<CpuKernel> make_conv2d_backward_input_kernel(const Op& op, CpuContext& context) {
  return make_convolution_kernel(op, context);
}
std::unique_ptr<CpuKernel> make_conv2d_backward_weight_kernel(const Op& op, CpuContext& context) {
  return make_convolution_kernel(op, context);
}

}  // namespace

const CpuOp conv2d_on_cpu = {make_conv2d_kernel, cut_conv2d, conv2d_workspace_bytes};
const CpuOp conv2d_backward_input_on_cpu = {make_conv2d_backward_input_kernel, cut_conv2d_backward_input,
                                            conv2d_workspace_bytes};
const CpuOp conv2d_backward_weight_on_cpu = {make_conv2d_backward_weight_kernel, cut_conv2d_backward_weight,
                                             conv2d_workspace_bytes};

}  // namespace trainer
