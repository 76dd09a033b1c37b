#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "engine/cpu/dnnl_call.h"
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

/// The operands of a convolution in oneDNN's words: logical dimensions are NCHW and OIHW (GOIHW), memory is NHWC.
struct ConvolutionShape {
  Memory x, y, bias, plain_weights, any_weights;
  dnnl::memory::dims strides, dilates, padding_before, padding_after;
  bool has_bias = false;
  std::int64_t input_channels_per_group = 0;
};

ConvolutionShape shape_of(const Conv2dAttributes& a, const Shape& x, const Shape& y) {
  ConvolutionShape s;
  const std::int64_t channels = x[3];
  s.x = describe({x[0], channels, x[1], x[2]}, Tag::nhwc);
  s.y = describe({y[0], a.out, y[1], y[2]}, Tag::nhwc);
  s.has_bias = a.bias;
  if (a.bias) s.bias = describe({a.out}, Tag::a);
  s.input_channels_per_group = channels / a.groups;
  dnnl::memory::dims weights = {a.out, channels / a.groups, a.kernel[0], a.kernel[1]};
  if (a.groups > 1) weights = {a.groups, a.out / a.groups, channels / a.groups, a.kernel[0], a.kernel[1]};
  s.plain_weights = describe(weights, a.groups > 1 ? Tag::goihw : Tag::oihw);
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

dnnl::convolution_forward::primitive_desc describe_forward(const ConvolutionShape& s, const dnnl::engine& engine) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using Forward = dnnl::convolution_forward;
  const auto description = s.has_bias ? Forward::desc(kind, algorithm, s.x, s.any_weights, s.bias, s.y, s.strides,
                                                      s.dilates, s.padding_before, s.padding_after)
                                      : Forward::desc(kind, algorithm, s.x, s.any_weights, s.y, s.strides, s.dilates,
                                                      s.padding_before, s.padding_after);
  Forward::primitive_desc chosen(description, user_scratchpad(), engine);
  // Measured on Zen 4: with few input channels (the first layer) the direct kernel takes two thirds of the time of the
  // one through small matrix products, which oneDNN 2.6 puts first.
  const auto is_batched_gemm = [&] { return std::string_view(chosen.impl_info_str()).starts_with("brgconv"); };
  if (s.input_channels_per_group < 16)
    while (is_batched_gemm() && chosen.next_impl()) continue;
  return chosen;
}

dnnl::convolution_backward_data::primitive_desc describe_backward_input(const ConvolutionShape& s,
                                                                        const dnnl::engine& engine) {
  using Backward = dnnl::convolution_backward_data;
  const auto hint = describe_forward(s, engine);
  return {Backward::desc(dnnl::algorithm::convolution_direct, s.x, s.any_weights, s.y, s.strides, s.dilates,
                         s.padding_before, s.padding_after),
          user_scratchpad(), engine, hint};
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weight(const ConvolutionShape& s,
                                                                            const dnnl::engine& engine) {
  using Backward = dnnl::convolution_backward_weights;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto hint = describe_forward(s, engine);
  const auto description = s.has_bias ? Backward::desc(algorithm, s.x, s.any_weights, s.bias, s.y, s.strides, s.dilates,
                                                       s.padding_before, s.padding_after)
                                      : Backward::desc(algorithm, s.x, s.any_weights, s.y, s.strides, s.dilates,
                                                       s.padding_before, s.padding_after);
  return {description, user_scratchpad(), engine, hint};
}

dnnl::reorder::primitive_desc describe_reorder(const Memory& from, const Memory& to, const dnnl::engine& engine) {
  return {engine, from, engine, to, user_scratchpad()};
}

/// Weights in oneDNN's own order take the front of the workspace, behind them the scratchpads of the convolution and
/// of the reorder, which do not run at the same time, share their bytes.
struct Workspace {
  std::int64_t weights_bytes = 0;  ///< 0 where the plain order serves
  std::int64_t scratchpad_bytes = 0;

  std::int64_t total() const { return weights_bytes + scratchpad_bytes; }
};

Workspace workspace_for(const Memory& weights, const Memory& plain, std::size_t scratchpad_bytes, bool from_plain,
                        const dnnl::engine& engine) {
  if (weights == plain) return {0, aligned(scratchpad_bytes)};
  const auto reorder = from_plain ? describe_reorder(plain, weights, engine) : describe_reorder(weights, plain, engine);
  return {aligned(weights.get_size()),
          std::max(aligned(scratchpad_bytes), aligned(reorder.scratchpad_desc().get_size()))};
}

/// A convolution of any direction: the operands in the op's order, the weights in between being reordered.
class ConvolutionKernel final : public Kernel {
 public:
  template <typename PrimitiveDescription>
  ConvolutionKernel(const PrimitiveDescription& description, const Memory& weights, const Memory& plain_weights,
                    bool weights_are_input, const CpuContext& context, const dnnl::engine& engine)
      : context_(context),
        workspace_(
            workspace_for(weights, plain_weights, description.scratchpad_desc().get_size(), weights_are_input, engine)),
        weights_are_input_(weights_are_input),
        convolution_(description.get()) {
    convolution_.add_argument(weights_are_input ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, weights.data, context_);
    convolution_.add_argument(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc().data, context_);
    if (workspace_.weights_bytes == 0) return;
    const Memory& from = weights_are_input ? plain_weights : weights;
    const Memory& to = weights_are_input ? weights : plain_weights;
    const auto reorder = describe_reorder(from, to, engine);
    reorder_ = DnnlCall(reorder.get());
    reorder_.add_argument(DNNL_ARG_FROM, from.data, context_);
    reorder_.add_argument(DNNL_ARG_TO, to.data, context_);
    reorder_.add_argument(DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc().data, context_);
  }

  /// The further operands, in the order in which run_convolution gets their addresses.
  void add_operand(int argument, const Memory& memory) { convolution_.add_argument(argument, memory.data, context_); }

  /// Which of the op's inputs and outputs the weights are, and the others in the order of add_operand.
  struct Position {
    bool is_input = true;
    std::size_t index = 0;
  };
  void set_positions(Position weights, std::vector<Position> others) {
    weights_position_ = weights;
    other_positions_ = std::move(others);
  }

  /// Ends with ReLU over the first output.
  void append_relu(std::int64_t num_elements) { relu_elements_ = num_elements; }

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    const auto address_of = [&](Position p) {
      return p.is_input ? addresses.inputs[p.index] : addresses.outputs[p.index];
    };
    void* const plain_weights = address_of(weights_position_);
    char* const workspace = static_cast<char*>(addresses.workspace);
    const bool reordered = workspace_.weights_bytes > 0;
    void* const scratchpad = workspace_.scratchpad_bytes > 0 ? workspace + workspace_.weights_bytes : nullptr;
    void* const weights = reordered ? workspace : plain_weights;
    if (reordered) {
      reorder_.set_address(0, weights_are_input_ ? plain_weights : weights);
      reorder_.set_address(1, weights_are_input_ ? weights : plain_weights);
      reorder_.set_address(2, scratchpad);
    }
    convolution_.set_address(0, weights);
    convolution_.set_address(1, scratchpad);
    for (std::size_t i = 0; i < other_positions_.size(); ++i)
      convolution_.set_address(2 + i, address_of(other_positions_[i]));
    if (reordered && weights_are_input_) reorder_.execute(context_);
    convolution_.execute(context_);
    if (reordered && !weights_are_input_) reorder_.execute(context_);
    if (relu_elements_ > 0)
      relu_in_place(static_cast<float*>(addresses.outputs[0]), relu_elements_, context_.num_threads);
  }

 private:
  const CpuContext& context_;
  Workspace workspace_;
  bool weights_are_input_;
  DnnlCall convolution_, reorder_;
  Position weights_position_;
  std::vector<Position> other_positions_;
  std::int64_t relu_elements_ = 0;
};

constexpr ConvolutionKernel::Position input_at(std::size_t index) { return {true, index}; }
constexpr ConvolutionKernel::Position output_at(std::size_t index) { return {false, index}; }

/// oneDNN's exceptions become ours.
template <typename Function>
auto with_engine(const CpuContext& context, Function&& function) {
  try {
    return function(dnnl::engine(context.engine, true));
  } catch (const dnnl::error& error) {
    require_dnnl(error.status, error.what());
    throw InternalError("internal error: oneDNN raised an error with status success");
  }
}

ConvolutionShape forward_shape(const Op& op) {
  return shape_of(attributes_of<Conv2dAttributes>(op), op.inputs[0].shape, op.outputs[0].shape);
}
ConvolutionShape backward_input_shape(const Op& op) {
  ConvolutionShape shape = shape_of(attributes_of<Conv2dAttributes>(op), op.outputs[0].shape, op.inputs[0].shape);
  shape.has_bias = false;
  return shape;
}
ConvolutionShape backward_weight_shape(const Op& op) {
  return shape_of(attributes_of<Conv2dAttributes>(op), op.inputs[1].shape, op.inputs[0].shape);
}

}  // namespace

std::int64_t conv2d_workspace_bytes(const Op& op, CpuContext& context) {
  return with_engine(context, [&](const dnnl::engine& engine) {
    if (op.kind == OpKind::conv2d) {
      const auto shape = forward_shape(op);
      const auto p = describe_forward(shape, engine);
      return workspace_for(p.weights_desc(), shape.plain_weights, p.scratchpad_desc().get_size(), true, engine).total();
    }
    if (op.kind == OpKind::conv2d_backward_input) {
      const auto shape = backward_input_shape(op);
      const auto p = describe_backward_input(shape, engine);
      return workspace_for(p.weights_desc(), shape.plain_weights, p.scratchpad_desc().get_size(), true, engine).total();
    }
    const auto shape = backward_weight_shape(op);
    const auto p = describe_backward_weight(shape, engine);
    return workspace_for(p.diff_weights_desc(), shape.plain_weights, p.scratchpad_desc().get_size(), false, engine)
        .total();
  });
}

std::unique_ptr<Kernel> make_conv2d_kernel(const Op& op, CpuContext& context) {
  return with_engine(context, [&](const dnnl::engine& engine) -> std::unique_ptr<Kernel> {
    const auto shape = forward_shape(op);
    const auto description = describe_forward(shape, engine);
    auto kernel = std::make_unique<ConvolutionKernel>(description, description.weights_desc(), shape.plain_weights,
                                                      true, context, engine);
    kernel->add_operand(DNNL_ARG_SRC, shape.x);
    kernel->add_operand(DNNL_ARG_DST, shape.y);
    if (attributes_of<Conv2dAttributes>(op).relu) kernel->append_relu(op.outputs[0].num_elements());
    if (shape.has_bias) kernel->add_operand(DNNL_ARG_BIAS, shape.bias);
    if (shape.has_bias)
      kernel->set_positions(input_at(1), {input_at(0), output_at(0), input_at(2)});
    else
      kernel->set_positions(input_at(1), {input_at(0), output_at(0)});
    return kernel;
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_input_kernel(const Op& op, CpuContext& context) {
  return with_engine(context, [&](const dnnl::engine& engine) -> std::unique_ptr<Kernel> {
    const auto shape = backward_input_shape(op);
    const auto description = describe_backward_input(shape, engine);
    auto kernel = std::make_unique<ConvolutionKernel>(description, description.weights_desc(), shape.plain_weights,
                                                      true, context, engine);
    kernel->add_operand(DNNL_ARG_DIFF_DST, shape.y);
    kernel->add_operand(DNNL_ARG_DIFF_SRC, shape.x);
    kernel->set_positions(input_at(1), {input_at(0), output_at(0)});
    return kernel;
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_weight_kernel(const Op& op, CpuContext& context) {
  return with_engine(context, [&](const dnnl::engine& engine) -> std::unique_ptr<Kernel> {
    const auto shape = backward_weight_shape(op);
    const auto description = describe_backward_weight(shape, engine);
    auto kernel = std::make_unique<ConvolutionKernel>(description, description.diff_weights_desc(), shape.plain_weights,
                                                      false, context, engine);
    kernel->add_operand(DNNL_ARG_DIFF_DST, shape.y);
    kernel->add_operand(DNNL_ARG_SRC, shape.x);
    if (shape.has_bias) kernel->add_operand(DNNL_ARG_DIFF_BIAS, shape.bias);
    if (shape.has_bias)
      kernel->set_positions(output_at(0), {input_at(0), input_at(1), output_at(1)});
    else
      kernel->set_positions(output_at(0), {input_at(0), input_at(1)});
    return kernel;
  });
}

}  // namespace trainer
