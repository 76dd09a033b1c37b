#include <cstddef>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/bias_gradient.h"
#include "cuda/kernels/transpose.h"
#include "cuda/ops/conv2d_call.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

namespace {

/// What the three ops share: the library's convolution, and weights that go through its order (K, kh, kw, C/groups).
class PreparedConvolution {
 public:
  PreparedConvolution(const Op& op, const TensorType& weights, CudaContext& context)
      : stream_(context.stream), type_(weights.dtype), weights_(weights.shape) {
    const ConvolutionCall call = convolution_call(op, context.tf32);
    library_bytes_ = context.library->convolution_planner().workspace_bytes(call);
    workspace_ = conv2d_workspace(op, library_bytes_);
    convolution_ = context.library->prepare(call);
  }

  Stream stream() const { return stream_; }
  void* bias_gradient_workspace(const OperandAddresses& addresses) const {
    return workspace_.bias_gradient < 0 ? nullptr : part(addresses, workspace_.bias_gradient);
  }

  /// Runs the convolution with `weights` as the op has them, which it reads.
  void run_reading(const OperandAddresses& addresses, ConvolutionOperands operands, const void* weights) const {
    // A convolution that reads its weights does not change them.
    operands.weights = const_cast<void*>(weights);
    if (workspace_.weights >= 0) {
      operands.weights = part(addresses, workspace_.weights);
      transpose(type_, weights, operands.weights, weights_[0], weights_[1], weights_[2] * weights_[3], stream_);
    }
    run(addresses, operands);
  }
  /// The same where it writes them.
  void run_writing(const OperandAddresses& addresses, ConvolutionOperands operands, void* weights) const {
    operands.weights = workspace_.weights < 0 ? weights : part(addresses, workspace_.weights);
    run(addresses, operands);
    if (workspace_.weights >= 0)
      transpose(type_, operands.weights, weights, weights_[0], weights_[2] * weights_[3], weights_[1], stream_);
  }

 private:
  static void* part(const OperandAddresses& addresses, std::int64_t offset) {
    return static_cast<std::byte*>(addresses.workspace) + offset;
  }
  void run(const OperandAddresses& addresses, ConvolutionOperands operands) const {
    operands.workspace = library_bytes_ > 0 ? addresses.workspace : nullptr;
    convolution_->run(operands, stream_);
  }

  Stream stream_;
  DType type_;
  Shape weights_;
  std::int64_t library_bytes_ = 0;
  Conv2dWorkspace workspace_;
  std::unique_ptr<Convolution> convolution_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv2d_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<Conv2dAttributes>(op);
  return make_kernel([convolution = PreparedConvolution(op, op.inputs[1], context), has_bias = attributes.bias,
                      relu_behind = attributes.relu && !attributes.bias,
                      y = op.outputs[0]](const OperandAddresses& addresses) {
    convolution.run_reading(addresses,
                            {.x = modified_input(addresses, 0),
                             .bias = has_bias ? input(addresses, 2) : nullptr,
                             .y = output(addresses, 0)},
                            input(addresses, 1));
    if (relu_behind)
      activation_forward(y.dtype, {.function = Activation::relu}, output(addresses, 0), output(addresses, 0),
                         y.num_elements(), convolution.stream());
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_input_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, op.inputs[1], context)](const OperandAddresses& addresses) {
    convolution.run_reading(addresses, {.x = output(addresses, 0), .y = modified_input(addresses, 0)},
                            input(addresses, 1));
  });
}

std::unique_ptr<Kernel> make_conv2d_backward_weight_kernel(const Op& op, CudaContext& context) {
  return make_kernel([convolution = PreparedConvolution(op, op.outputs[0], context), dy = op.inputs[0],
                      has_bias = op.outputs.size() > 1](const OperandAddresses& addresses) {
    convolution.run_writing(addresses, {.x = modified_input(addresses, 1), .y = modified_input(addresses, 0)},
                            output(addresses, 0));
    if (!has_bias) return;
    const std::int64_t columns = dy.shape[3];
    bias_gradient(dy.dtype, input(addresses, 0), output(addresses, 1), dy.num_elements() / columns, columns,
                  convolution.bias_gradient_workspace(addresses), convolution.stream());
  });
}

}  // namespace trainer::cuda
