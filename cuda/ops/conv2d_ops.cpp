#include <cstddef>
#include <optional>
#include <utility>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/add_bias.h"
#include "cuda/kernels/bias_gradient.h"
#include "cuda/ops/conv2d_call.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// What convolutions and transposed ones share: the library's convolution, or kernels for single channels, and the
/// parts of the workspace.
class PreparedConvolution {
 public:
  PreparedConvolution(const Op& op, CudaContext& context)
      : stream_(context.stream),
        direction_(convolution_direction(op)),
        type_(op.inputs[0].dtype),
        relu_(attributes_of<Conv2dAttributes>(op).relu),
        depthwise_(depthwise_shape_of(op)) {
    if (depthwise_) {
      const bool sums = direction_ == ConvolutionDirection::weight_gradient;
      workspace_ = conv2d_workspace(op, sums ? depthwise_workspace_bytes(*depthwise_) : 0);
      return;
    }
    const ConvolutionCall call = convolution_call(op, context.tf32);
    const std::int64_t library_bytes = context.library->convolution_planner().workspace_bytes(call);
    has_library_workspace_ = library_bytes > 0;
    workspace_ = conv2d_workspace(op, library_bytes);
    convolution_ = context.library->prepare(call);
  }

  Stream stream() const { return stream_; }
  bool is_depthwise() const { return depthwise_.has_value(); }

  void run(const OperandAddresses& addresses, ConvolutionOperands operands) const {
    if (depthwise_) return run_depthwise(addresses, operands);
    operands.workspace = has_library_workspace_ ? addresses.workspace : nullptr;
    convolution_->run(operands, stream_);
  }
  /// Of the weight's op, whose first input is dy and whose second output is the bias's gradient.
  void run_bias_gradient(const OperandAddresses& addresses, const TensorType& dy) const {
    const std::int64_t columns = dy.shape[3];
    void* const partial_sums = workspace_.bias_gradient < 0
                                   ? nullptr
                                   : static_cast<std::byte*>(addresses.workspace) + workspace_.bias_gradient;
    bias_gradient(dy.dtype, input(addresses, 0), output(addresses, 1), dy.num_elements() / columns, columns,
                  partial_sums, stream_);
  }

 private:
  void run_depthwise(const OperandAddresses& addresses, const ConvolutionOperands& operands) const {
    switch (direction_) {
      case ConvolutionDirection::forward:
        return depthwise_conv2d_forward(type_, operands.x, operands.weights, operands.bias, operands.y, relu_,
                                        *depthwise_, stream_);
      case ConvolutionDirection::input_gradient:
        return depthwise_conv2d_input_gradient(type_, operands.y, operands.weights, operands.x, *depthwise_, stream_);
      case ConvolutionDirection::weight_gradient:
        return depthwise_conv2d_weight_gradient(type_, operands.y, operands.x, operands.weights, *depthwise_,
                                                addresses.workspace, stream_);
    }
  }

  const Stream& stream_;
  ConvolutionDirection direction_;
  DType type_;
  bool relu_;
  std::optional<DepthwiseShape> depthwise_;
  bool has_library_workspace_ = false;
  Conv2dWorkspace workspace_;
  std::unique_ptr<Convolution> convolution_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv2d_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  PreparedConvolution prepared(op, context);
  const bool relu_behind = attributes.relu && !attributes.bias && !prepared.is_depthwise();
  return make_kernel([convolution = std::move(prepared), has_bias = attributes.bias,
                      has_statistics = attributes.statistics, relu_behind,
                      y = op.outputs[0]](const OperandAddresses& addresses) {
    convolution.run(addresses, {.x = modified_input(addresses, 0),
                                .weights = modified_input(addresses, 1),
                                .bias = has_bias ? input(addresses, 2) : nullptr,
                                .y = output(addresses, 0),
                                .sums = has_statistics ? output<float>(addresses, 1) : nullptr,
                                .square_sums = has_statistics ? output<float>(addresses, 2) : nullptr});
    if (relu_behind)
      activation_forward(y.dtype, {.function = Activation::relu}, output(addresses, 0), output(addresses, 0),
                         y.num_elements(), convolution.stream());
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_input_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context)](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = output(addresses, 0), .weights = modified_input(addresses, 1), .y = modified_input(addresses, 0)});
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_weight_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context), dy = op.inputs[0],
                      has_bias = op.outputs.size() > 1](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = modified_input(addresses, 1), .weights = output(addresses, 0), .y = modified_input(addresses, 0)});
    if (has_bias) convolution.run_bias_gradient(addresses, dy);
  });
}

std::unique_ptr<Kernel> make_conv_transpose2d_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context), has_bias = op.inputs.size() > 2,
                      y = op.outputs[0]](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = output(addresses, 0), .weights = modified_input(addresses, 1), .y = modified_input(addresses, 0)});
    if (!has_bias) return;
    const std::int64_t columns = y.shape[3];
    add_bias(y.dtype, input(addresses, 2), output(addresses, 0), y.num_elements() / columns, columns,
             convolution.stream());
  });
}

std::unique_ptr<Kernel> make_conv_transpose2d_backward_weight_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, context), dy = op.inputs[0],
                      has_bias = op.outputs.size() > 1](const OperandAddresses& addresses) {
    convolution.run(
        addresses,
        {.x = modified_input(addresses, 0), .weights = output(addresses, 0), .y = modified_input(addresses, 1)});
    if (has_bias) convolution.run_bias_gradient(addresses, dy);
  });
}

}  // namespace trainer::cuda
